"""The messages between readers, resolver and Archives: the resolution standard, pure.

A message is a frozen value, read from bytes and written to bytes. No code opens a socket or decodes twice.

Entry points: `persistent_url.PersistentURL`, `messages.read_request`, `url_list.UrlList`, `relation.Relation`.
"""
