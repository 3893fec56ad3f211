"""The evidence: an append-only log of what happened to the registry and to originals, as a hash chain (threat T42).

It never holds a key, a reader's address or the query of a persistent URL.

Entry points: `log.Evidence`, `chain.verify_lines`, `pages.read_slice`, `pages.OriginalsAlerts`.
"""
