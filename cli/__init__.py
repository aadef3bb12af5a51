"""The `pawtill` command."""
