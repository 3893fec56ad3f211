"""Several nodes behind a balancer lose nothing, whatever is killed: `python -m proofs.nodes [--short|--full]`."""
