"""The schema of the catalogue: the migrations make it; `catalogue.sql`, beside them, shows it as it is now."""

from pathlib import Path

MIGRATIONS = Path(__file__).parent / "migrations"
"""The folder of the migrations."""
