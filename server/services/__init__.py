"""The server's use cases: gather, decide, record; each in one transaction that the caller opened."""
