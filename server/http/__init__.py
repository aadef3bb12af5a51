"""The server's HTTP interface: what comes in is checked, what goes out is shaped, nothing is decided here."""
