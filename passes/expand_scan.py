def expand_scan(program): pass
