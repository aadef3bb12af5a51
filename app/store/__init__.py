"""The till's own SQLite database: durable ledger, outbox and the tables that the feed fills."""
