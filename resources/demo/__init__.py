"""Hold the data of the demo chain; see `cli/demo_chain.py`."""
