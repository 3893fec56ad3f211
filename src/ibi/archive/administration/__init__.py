"""The administration of an Archive under `/-/admin`: what the JSON interface does, for people with a browser."""
