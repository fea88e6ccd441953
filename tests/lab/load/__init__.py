"""Load: memory and throughput at the limits, as a part of `make soak`. The figures go to tests/lab/results/load.json.

Thresholds are ratios within one run, or bytes, never seconds.
"""
