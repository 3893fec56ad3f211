"""What librarians and their programs do with an Archive itself, each act defined once for JSON, command line and pages.

It never reads a body or an option: it is given fields that have been read, and the context in which it acts.

Entry points: `context.ArchiveContext`, `listed.OPERATIONS`.
"""
