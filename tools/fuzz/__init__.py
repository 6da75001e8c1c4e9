"""A fuzzer: random programs over the public API, jitted beside eager calls and JAX.

    python -m gnomon.tools.fuzz --programs 10000 --output findings.txt

runs the programs of the seeds 0 to 9999, in about an hour of one core. A seed is one program: of a
few statements on small arrays, 32 or 64 bits wide, compiled for this processor or an older level
of it. `--together` of them are compiled as one, which costs a fourth of compiling each, and is the
harder test; what fails is run again alone, reduced and printed as a script.

`catalog` holds the API as templates of statements, `program` programs as data, `generating` draws
them, `running` runs them, `judging` says how far results may be apart, `checking` and `together`
use them on one program and on many, `reducing` makes failing programs small, `reporting` prints
them, `session` does all this for many seeds. Known differences from JAX are listed in `checking`.
"""
