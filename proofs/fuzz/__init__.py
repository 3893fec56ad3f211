"""Fuzz of every parser, of both services, and of the answers of Archives that lie: no fault of ours, no status 500."""
