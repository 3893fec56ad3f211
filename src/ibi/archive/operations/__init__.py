"""The operations of librarians and their programs, defined once for JSON, command line and pages.

An operation never reads a body or an option: it gets fields that have been read, and its context.

Entry points: `context.ArchiveContext`, `listed.OPERATIONS`.
"""
