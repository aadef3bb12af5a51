"""Run scenario files on the real parts in one process: a small world, what happens in it, and the right answers.

The way of a file: `reading` (TOML -> Scenario, everything checked and named) -> `world` (a chain on a real database,
tills with their own ledgers, a virtual clock) -> `verbs_*` (one function for each verb) -> `comparing` -> `report`.
Source: scenarios/FORMAT.md, version 1. A composition root: it names concrete stores, nothing else imports it but the
command line.
"""
