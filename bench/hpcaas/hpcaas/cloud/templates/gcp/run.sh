{% extends "run_base.sh" %}
{% block tools %}, gcloud, terraform{% endblock %}
{% block create %}gcluster deploy blueprint.yaml --auto-approve{% endblock %}
{% block describe %}gcloud compute instances list --project {{ account.project_id | q }} --filter="labels.ghpc_deployment=$NAME" --format=json{% endblock %}
{% block grep %} run.sh | grep -v "grep -n"{% endblock %}
{% block delete %}[ -d "$NAME" ] || return 0
  gcluster destroy "$NAME" --auto-approve{% endblock %}
