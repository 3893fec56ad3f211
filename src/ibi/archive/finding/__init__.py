"""Finding what an Archive holds: an index that is derived from its catalogue, and all that is read from it."""
