"""Between Archives: copies that follow their originals, and originals that are handed over."""
