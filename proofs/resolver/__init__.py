"""The proofs of the resolver as it is run: its processes, its sockets, its restarts."""
