"""Readers of the formats that items come in, record by record; each makes the same description of an item (note 11).

They never touch the Archive. A record that cannot be read is returned with its error and harms no other.

Entry points: `records.read_json_lines`, `bibtex.read_bibtex`, `ris.read_ris`, `table.read_table`.
"""
