"""The chain's server: HTTP, use cases, database, jobs, scenarios."""
