"""Resolutions, simulated: what a resolver did in a scenario is compared with what the standard lets it do."""
