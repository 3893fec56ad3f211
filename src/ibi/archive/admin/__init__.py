"""The administration pages of an Archive: forms and lists for librarians and administrators.

They never change anything by themselves: what is typed goes the way of the JSON interface.

Entry points: `item_pages.ItemPages`, `overview.ArchivePages`.
"""
