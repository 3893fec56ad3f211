"""The metrics of a resolver, counted over all its processes: GET /-/metrics.

No number has a label for a reader, an item or an Archive.

Entry point: `metrics.ResolverMetrics`.
"""
