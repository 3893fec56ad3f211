"""What alembic runs for the migrations of the shared store; `ibi.runtime.database.migrate` is the only caller."""

from alembic import context

from ibi.runtime.database import run_migrations

run_migrations(context.config.attributes)
