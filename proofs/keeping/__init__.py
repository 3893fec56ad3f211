"""What decays is noticed and never given out as good: P-D6, `python -m proofs.keeping [--short|--full] [--seed N]`."""
