"""What an Archive serves besides the messages of the standard: files, pages about items, persistent URLs, visits.

It never gives data to a reader who may not have them: that is decided again at every request (SVC-10, threat T24).

Entry points: `site.Site`, `search_pages.SearchPages`, `visits.VisitCounter`, `handle_records.HandleRecords`.
"""
