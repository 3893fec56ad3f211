"""Pages for people (floor 5): values of the Archive and the resolver, written as HTML, JSON or plain text."""
