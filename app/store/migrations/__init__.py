"""Migrate the till's file from version to version (Alembic). The ledger's rows are never rewritten."""
