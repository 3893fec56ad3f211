"""What is said between readers, resolver and Archives: the resolution standard, pure."""
