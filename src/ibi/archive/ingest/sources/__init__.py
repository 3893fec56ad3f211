"""Readers of the formats of items, record by record; all of them make the same kind of description.

They never touch the Archive. An unreadable record is returned with its error; the other records are read. See note
11: importing twice.

Entry points: `records.read_json_lines`, `bibtex.read_bibtex`, `ris.read_ris`, `table.read_table`.
"""
