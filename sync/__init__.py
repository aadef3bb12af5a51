"""Moves bytes between till and server and decides nothing."""
