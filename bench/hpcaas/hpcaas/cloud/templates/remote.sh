#!/bin/bash
# Runs on the head node: installs the suite on the shared file system and measures. Compute nodes see the same directory.
set -euo pipefail
cd "$(dirname "$0")"
python3 -m venv venv
venv/bin/pip install -q ./suite
# Measuring ends by itself before the budget does; what is measured up to then is kept.
venv/bin/hpcaas measure --site site.yaml --out out --campaign {{ campaign.name | q }} \
  --budget-min {{ "%.0f" % estimate.measure_min }}{% for a in campaign.arguments %} {{ a | q }}{% endfor %}

