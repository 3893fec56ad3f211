"""Rate limits and admission: how much one client, one process or all processes together may do.

It never decides which limit applies to what, nor how a refused client is answered. README.md describes how
all limits act together.

Entry points: `token_bucket.RateLimit` and `token_bucket.TokenBuckets` (by client), `window.FailureWindows` (failures,
shared by processes), `fair_queue.FairQueue` (whose turn it is).
"""
