"""The JSON interface of an Archive under `/-/api/`: items, uploads, imports, hand-overs, membership, search.

Every route that changes something needs a token with its scope; reading items needs no token.

Entry points: `routes(…)` of each module, `deposits.Deposits`, `uploads.Uploads`, `openapi.routes`.
"""
