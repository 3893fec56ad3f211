"""The proofs of hand-overs (P-D4): never two originals, always one that can be resolved, and an end to it."""
