"""The care of what is kept: fixity, wholeness, backups, packages and receipts."""
