"""Hold the steps that bring a database of any earlier version to this one (Alembic); run by `server/db/migrate.py`."""
