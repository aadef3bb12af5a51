"""Simulate a whole chain under faults: the real code of tills, sync and server in one process, all from one seed.

What is outside of the code is behind ports and driven by one heap of events: time, ids, the network, disks and power,
the payment terminal. What physically happened is noted apart (`truth.py`) and held against the books.
"""
