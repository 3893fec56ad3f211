"""Proofs of the evidence: whatever is done to the log of a resolver shows, and nothing acknowledged is lost."""
