"""HTTP: requests and responses, the server, the client, and the limits of both.

It never decides what is answered, and knows neither Archive nor resolver.

Entry points: `response.Response`, `server` (uvicorn with limits), `client` (GET with a deadline to checked
addresses), `limits`.
"""
