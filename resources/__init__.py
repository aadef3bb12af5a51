"""Data that the program reads: life cycles, translations, icons, styles, receipts, demo data."""
