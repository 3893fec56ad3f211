"""The messages between readers, resolver and Archives: the resolution standard, pure.

It never opens a socket or decodes twice: a message is a frozen value, read from bytes and written to bytes.

Entry points: `persistent_url.PersistentURL`, `messages.read_request`, `url_list.UrlList`, `relation.Relation`.
"""
