"""What a name is and how it is born: the generation standard, pure."""
