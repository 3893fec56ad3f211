"""The administration pages of an Archive: forms and lists for librarians and administrators.

Every change is done by the operations of the JSON interface.

Entry points: `item_pages.ItemPages`, `other_pages.OtherPages`.
"""
