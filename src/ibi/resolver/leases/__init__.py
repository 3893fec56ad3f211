"""Leases: how long the cached answers of an Archive may be used, and how the resolver learns of changes."""
