"""HPCaaS-Bench: representative applications over the choices that matter, measured honestly."""

__version__ = "0.3.0"

# Results of another schema are refused; results of another suite version are merged with a remark.
RESULT_SCHEMA = "hpcaas-results/1"
