"""What several sets of proofs share: their command and report, how they run our programs, and whom they ask."""
