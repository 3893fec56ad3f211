"""The JSON interface of a resolver under `/-/api/`: what its administrators can do on pages, for programs with a token.

It decides nothing: each route calls the same functions as pages and commands.

Entry points: `keys.KeyRecoveryHandler`, `openapi.document`.
"""
