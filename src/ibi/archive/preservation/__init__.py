"""Preservation: audits of stored files, consistency checks, backups, rebuilds, BagIt bags, signed receipts.

It never changes an item on its own: it reports damage, and repairs only on request or with the same bytes.

Entry points: `audit`, `check.check` (with `file_check`), `backup.Backup`, `rebuild.rebuild`, `bagging`, `attestation`.
"""
