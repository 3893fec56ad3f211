"""What was acknowledged is kept whole: proofs, `python -m proofs.deposit [--short|--full] [--seed N] [NAME ...]`."""
