{% extends "run_base.sh" %}
{% block create %}cyclecloud create_cluster slurm "$NAME" -p parameters.json && cyclecloud start_cluster "$NAME"{% endblock %}
{% block describe %}cyclecloud show_cluster "$NAME"{% endblock %}
{% block delete %}cyclecloud terminate_cluster "$NAME"{% endblock %}
