"""Benchmarks: the same named workloads through gnomon and its peers, in one process.

    python -m gnomon.tools.bench --list
    python -m gnomon.tools.bench --only eager --only matmul --output table.md

`workloads/` holds one room per family, `measure` the method, `report` the tables, `frameworks` what
the peers are.
"""
