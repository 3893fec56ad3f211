"""The JSON interface of an Archive under `/-/api/`: items, uploads, imports, hand-overs, membership, search.

Everything that changes something needs a token with the scope of its route; reading items needs none.

Entry points: `routes(…)` of each module, `deposits.Deposits`, `uploads.Uploads`, `openapi.routes`.
"""
