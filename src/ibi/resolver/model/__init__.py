"""Values of a resolver: Archives, responses, alerts, suggestions; pure.

Entry points: `archive.Archive`, `alert.Alert`, `hops`.
"""
