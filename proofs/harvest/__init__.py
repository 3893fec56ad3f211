"""Proofs of the OAI-PMH repository: harvested whole, harvested while it changes, and judged by others' schemas."""
