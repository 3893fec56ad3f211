"""The script of alembic for the catalogue's migrations; only `ibi.runtime.database.migrate` runs it."""

from alembic import context

from ibi.runtime.database import run_migrations

run_migrations(context.config.attributes)
