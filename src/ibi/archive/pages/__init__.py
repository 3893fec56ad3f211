"""What an Archive serves besides the messages of the standard: files, pages about items, persistent URLs.

Whether a reader may have the data of an item is decided again at every request (SVC-10: URLs by reader; T24: forged
addresses).

Entry points: `site.Site`, `search_pages.SearchPages`, `visits.VisitCounter`, `handle_records.HandleRecords`.
"""
