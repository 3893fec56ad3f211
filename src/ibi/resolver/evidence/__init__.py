"""The evidence: an append-only log of what happened to the registry and to originals, as a hash chain.

It never holds a key, a reader's address or the query of a persistent URL. See T42: missing evidence.

Entry points: `log.Evidence`, `chain.verify_lines`, `reading.read_slice`, `reading.OriginalsAlerts`.
"""
