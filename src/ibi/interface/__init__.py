"""A JSON interface under `/-/api/`: the table of what can be asked, who may ask, and how it is told."""
