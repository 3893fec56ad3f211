"""Formats for machines, and for citing: what an Archive knows of an item, as others expect to read it."""
