"""What programs of administrators ask a resolver for under `/-/api/`: what its pages do, by the same rooms."""
