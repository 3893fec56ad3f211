"""The JSON interface under `/-/api/`: routes, request bodies, problems, and their description as OpenAPI.

It never knows what an item or an Archive is: a service gives its routes as a table, and the functions that answer.

Entry points: `routes.Route`, `dispatch.Api`, `fields.Fields`, `operations.Operation`, `openapi.document`.
"""
