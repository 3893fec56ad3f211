"""What a resolver talks about, as values: Archives, requests, alerts, suggestions; pure.

Entry points: `archive.Archive`, `alert.Alert`, `hops`.
"""
