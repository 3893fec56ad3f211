"""The HTTP server: uvicorn with limits, a fast path, several workers, and a stop that loses no request.

It never decides what is answered, and knows neither Archive nor resolver. See T30: slow requests.

Entry points: `service.Service` and `service.run` (several services in one event loop), `workers.serve` (one process
or several, until a signal), `config.AtOnce` (the hook of the fast path).
"""
