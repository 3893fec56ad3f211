"""The operations of librarians and their programs on an Archive, defined once for JSON, command line and pages.

An operation never reads a body or an option: it gets fields that have been read, and the context in which it
acts.

Entry points: `context.ArchiveContext`, `listed.OPERATIONS`.
"""
