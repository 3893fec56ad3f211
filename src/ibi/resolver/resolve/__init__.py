"""Resolution: a pure state machine decides; other modules query Archives for it (R15 chapter 8).

It never answers a reader over HTTP, and never stores anything that must not be lost. README.md explains its words.

Entry points: `resolver.Resolver` (one resolution, in rounds), `resolution.Resolution` (decides; pure), `round.Round`
(asks all Archives once), `queries.Queries` (sends a query to each), `policy.Policy` (strict or hardened; pure).
"""
