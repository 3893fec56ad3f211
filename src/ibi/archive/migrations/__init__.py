"""The steps from one version of the catalogue to the next, run by alembic."""
