"""Whether an Archive and a resolver say of items of every kind what the standard wants (ARC, MSG, URL, SVC, RES)."""
