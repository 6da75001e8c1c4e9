"""Benchmarks: the same named workloads in gnomon and its peers, in one process.

    python -m gnomon.tools.bench --list
    python -m gnomon.tools.bench --only eager --only matmul --output table.md

`workloads/` has one module per family, `measure` the method, `report` the tables, and `frameworks`
the peers.
"""
