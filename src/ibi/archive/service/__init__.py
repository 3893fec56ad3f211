"""The Archive service: an ASGI application for the messages of the standard (R15 chapter 9) and for pages.

It never sends a request to another Archive or to a resolver.

Entry points: `service.ArchiveService`, `messages.MessageService` (the messages alone), `adapter.ArchiveAdapter`
(the same messages answered behind another platform's server).
"""
