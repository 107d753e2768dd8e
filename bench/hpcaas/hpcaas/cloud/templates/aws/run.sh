{% extends "run_base.sh" %}
{% block create %}pcluster create-cluster --cluster-name "$NAME" --region "$REGION" --cluster-configuration cluster.yaml{% endblock %}
{% block describe %}pcluster describe-cluster --cluster-name "$NAME" --region "$REGION"{% endblock %}
{% block delete %}pcluster delete-cluster --cluster-name "$NAME" --region "$REGION"{% endblock %}
