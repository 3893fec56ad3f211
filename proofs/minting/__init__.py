"""No label is ever given twice: six proofs, `python -m proofs.minting [--short|--full] [--seed N] [NAME ...]`."""
