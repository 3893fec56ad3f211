"""What administrators of a resolver decide, each operation defined once for JSON, command line and pages.

It never reads a body or an option: it gets fields that have been read, and the context in which it acts.

Entry points: `context.ResolverContext`, `listed.OPERATIONS`.
"""
