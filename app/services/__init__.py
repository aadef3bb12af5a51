"""The till's use cases: gather the facts, let the domain decide, record the decision."""
