"""Rate limits and admission: how much one client, one process or all processes together may do.

It never decides which limit applies to what, nor how to answer a refused client: README.md describes that.

Entry points: `token_bucket.RateLimit` and `token_bucket.TokenBuckets` (by client), `window.FailureWindows` (failures,
shared by processes), `fair_queue.FairQueue` (whose turn it is).
"""
