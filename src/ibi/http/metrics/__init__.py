"""Metrics of a program, counted over all its processes, and their page, GET /-/metrics.

Labels have fixed values: nothing that a stranger sends becomes one.

Entry points: `numbers.Metrics`, `requests.RequestMetrics`.
"""
