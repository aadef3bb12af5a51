"""Admit claims: of hot campaigns through Redis, of all others straight to the database, which decides them all.

The way of a claim: `claiming` (eligible? reserve, or not) -> `landing` (batches through the one arbiter, `grants`) ->
confirm or release -> the answer. What a dead process began, `draining` finishes. `generations` builds the counters of a
campaign from the database and brings edits to them; `reconciling` compares them with the database.

Nothing in Redis is the truth: it may be too careful or too generous for a moment, the database refuses what is not
there (DESIGN, "The one idea"; PROTOCOL 5.2 to 5.4).
"""
