def hoist_invariants(body): pass
