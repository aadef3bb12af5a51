"""Reserve coupons of hot campaigns in Redis; the only door to redis-py.

The way of a claim: `scripts` (one typed function for each file of `lua/`, a Call that is not sent yet) -> `pipeline`
(concurrent calls go together) -> `connection` (no retries, and no talk with a Redis that was restarted until somebody
has looked). `embedded` runs the bundled server where no other is given, `suitability` says what is wrong with one.

Redis admits and forgets; the database decides (DESIGN, "The one idea"). So nothing in here is ever the truth.
"""
