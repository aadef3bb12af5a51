"""Run the steps on the connection that `server/db/migrate.py` hands over, inside its transaction."""

from alembic import context

from server.db.schema import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    # SQLite and PostgreSQL can undo DDL: a step that fails halfway leaves the database as it was.
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
