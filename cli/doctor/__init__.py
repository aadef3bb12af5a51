"""Look at everything that Pawtill stands on, and say what is fine, what is worth knowing and what is broken."""
