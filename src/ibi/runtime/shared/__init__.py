"""What several nodes of one program share: documents, counters of changes and notices, in one PostgreSQL database.

A data directory whose settings have `store = "postgresql://…"` keeps there what must be the same on every node; what
is derived stays in its folder. Without `store`, nothing here is used.

Entry points: `store.store_of`, `documents.documents_of`, `replies.held_reply`.
"""
