"""Preservation: audits of stored files, consistency checks, backups, rebuilds, BagIt packages and signed receipts.

It never changes an item on its own: it reports, and repairs only with the same bytes, or on request.

Entry points: `audit`, `check.check`, `backup.Backup`, `rebuild.rebuild`, `bagging`, `attestation`.
"""
