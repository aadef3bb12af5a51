"""One file for each version; what has shipped is never edited."""
