"""Resolutions, simulated: what a resolver did in a story is held against what the standard lets it do."""
