"""The JSON interface of an Archive under `/-/api/`: items, uploads, and what other rooms add to its table of routes."""
