"""The JSON interface under `/-/api/`: routes, request bodies, problems, and their description as OpenAPI.

It does not know items or Archives: each service passes a table of its routes with the functions that answer.

Entry points: `routes.Route`, `dispatch.Api`, `fields.Fields`, `operations.Operation`, `openapi.document`.
"""
