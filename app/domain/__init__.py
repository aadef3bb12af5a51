"""Pure rules of value: standard library only, no clock, no randomness, no I/O; run by till and server alike."""
