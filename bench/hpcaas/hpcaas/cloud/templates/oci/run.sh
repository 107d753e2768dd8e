{% extends "run_base.sh" %}
{% block tools %}, and stack.zip: the HPC stack's release{% endblock %}
{% block grep %} run.sh | grep -v "grep -n"{% endblock %}
{% block create %}oci resource-manager stack create --region "$REGION" --compartment-id {{ account.compartment_ocid | q }} \
    --display-name "$NAME" --config-source stack.zip --variables file://variables.json \
    --query data.id --raw-output > stack.id
  oci resource-manager job create-apply-job --region "$REGION" --stack-id "$(cat stack.id)" \
    --execution-plan-strategy AUTO_APPROVED --query data.id --raw-output > job.id{% endblock %}
{% block describe %}[ -s job.id ] || { echo '{"data": {"operation": "DESTROY", "lifecycle-state": "SUCCEEDED"}}'; return; }
  oci resource-manager job get --region "$REGION" --job-id "$(cat job.id)" > job.json
  oci resource-manager job list-job-outputs --region "$REGION" --job-id "$(cat job.id)" \
    --query 'data.items' > outputs.json 2> /dev/null || echo '[]' > outputs.json
  python3 -c 'import json; job = json.load(open("job.json")); job["data"]["outputs"] = json.load(open("outputs.json")) or []; print(json.dumps(job))'{% endblock %}
{% block delete %}[ -s stack.id ] || return 0
  oci resource-manager job create-destroy-job --region "$REGION" --stack-id "$(cat stack.id)" \
    --execution-plan-strategy AUTO_APPROVED --query data.id --raw-output > job.id{% endblock %}
