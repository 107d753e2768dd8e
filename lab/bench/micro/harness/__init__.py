"""The benchmark harness behind bench.py."""
