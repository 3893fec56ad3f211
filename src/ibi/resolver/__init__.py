"""The resolver: from a persistent URL to the place where the item is now (R15 sections 6 to 8 and 10).

It never imports the Archive: the two meet over HTTP alone.

Entry points: `service.ResolverService` (HTTP), `resolve.resolver.Resolver` (one resolution),
`registry.registry.Registry` (the Archives), `fast_path.FastPath` (redirects from the cache).
"""
