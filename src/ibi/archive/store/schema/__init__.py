"""The schema of the catalogue: the migrations create it; `catalogue.sql` shows its present state."""

from pathlib import Path

MIGRATIONS = Path(__file__).parent / "migrations"
"""The folder of the migrations."""
