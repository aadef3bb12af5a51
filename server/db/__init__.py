"""The server's database: tables, migrations, one writer."""
