#!/bin/bash
# Creates a cluster with {{ provider.title }}, measures, collects the results and deletes the cluster.
# At most {{ "%.2f" % estimate.budget }} {{ estimate.currency }}: deleting begins {{ "%.1f" % ((estimate.window_s - estimate.teardown_s) / 3600) }} hours after the start at the latest,
# as long as this script lives.
# Written by `hpcaas cloud plan`; PLAN.md beside it says what will be rented and what it costs.
# Needs here: {{ provider.tool }}{% block tools %}{% endblock %}, ssh, scp, hpcaas.
# HPCAAS_SOURCE: the suite's directory. HPCAAS_KEY: private key for ssh.
set -euo pipefail
cd "$(dirname "$0")"
NAME={{ campaign.name | q }} REGION={{ row.region | q }}
: "${HPCAAS_SOURCE:?set it to the directory that holds the suite pyproject.toml}" "${HPCAAS_KEY:?set it to the private key for ssh}"
if grep -n FILL_IN_ {{ provider.files | join(" ") }}{% block grep %}{% endblock %}; then
  echo "run.sh: fill in what only you know, in the lines above" >&2; exit 2
fi
END=$((SECONDS + {{ (estimate.window_s - estimate.teardown_s) | int }}))
left() { echo $((END - SECONDS)); }
pause() { sleep "${HPCAAS_POLL_S:-20}"; }

create() {
  {%+ block create %}{% endblock %}

}
describe() {
  {%+ block describe %}{% endblock %}

}
delete_cluster() {
  {%+ block delete %}{% endblock %}

}

state() { describe > state.txt 2>&1 || true; hpcaas cloud state {{ provider.name }} state.txt; }
gone() { SEEN=$(state) && [ "${SEEN%% *}" = gone ]; }
# Whatever happens from here on, the cluster is deleted: an error, Ctrl-C, a hang-up, the end of the budget.
finish() {
  STATUS=$?; trap - EXIT; trap '' INT TERM HUP
  echo "deleting $NAME"
  until delete_cluster || gone; do echo "could not delete $NAME yet; trying again" >&2; pause; done
  # A state that nobody understands is not `gone`.
  until gone; do echo "deleting: ${SEEN:-unknown, see state.txt}"; pause; done
  echo "the cluster is gone; results are in $PWD/results"
  exit $STATUS
}
trap finish EXIT; trap 'exit 130' INT TERM HUP

echo "creating $NAME"
timeout "$(left)" bash -c "$(declare -f create); NAME='$NAME' REGION='$REGION' create"
while :; do
  SEEN=$(state) || SEEN="unknown, see state.txt"
  case $SEEN in ready\ *) break ;; failed*|gone*) echo "could not be created: $SEEN" >&2; exit 1 ;; esac
  [ "$(left)" -gt 0 ] || { echo "the time that the budget buys is over" >&2; exit 3; }
  echo "waiting: $SEEN"; pause
done
HEAD={{ provider.user }}@${SEEN#ready }
SSH=(-i "$HPCAAS_KEY" -o StrictHostKeyChecking=accept-new -o ServerAliveInterval=60)
DIR={{ provider.shared }}/hpcaas-$NAME

echo "measuring on $HEAD"
timeout "$(left)" ssh "${SSH[@]}" "$HEAD" "sudo mkdir -p $DIR && sudo chown \$(id -u) $DIR"
timeout "$(left)" scp "${SSH[@]}" -qr "$HPCAAS_SOURCE" "$HEAD:$DIR/suite"
timeout "$(left)" scp "${SSH[@]}" -q site.yaml remote.sh "$HEAD:$DIR/"
CODE=0; timeout "$(left)" ssh "${SSH[@]}" "$HEAD" "cd $DIR && bash remote.sh" || CODE=$?

echo "collecting"
mkdir -p results
# Also after an error: what was measured up to then is paid for.
timeout 600 scp "${SSH[@]}" -qr "$HEAD:$DIR/out/$NAME" results/ || CODE=$((CODE ? CODE : 4))
exit "$CODE"
