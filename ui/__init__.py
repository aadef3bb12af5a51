"""The till's window: presenters in plain Python, views in PySide6."""
