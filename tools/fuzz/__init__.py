"""A fuzzer: random programs over the public API, jitted beside eager calls and JAX.

    python -m gnomon.tools.fuzz --programs 1000 --output findings.txt

`catalog` holds the API as templates of statements, `program` programs as data, `generating` draws
them, `running` runs them, `judging` says how far results may be apart, `reducing` makes failing
programs small, `reporting` prints them, `session` does all this for many seeds.
"""
