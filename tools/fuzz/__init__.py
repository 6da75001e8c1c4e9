"""A fuzzer: random programs over the public API; jitted results are compared with eager and JAX.

    python -m gnomon.tools.fuzz --programs 10000 --output findings.txt

runs the programs of the seeds 0 to 9999, in about an hour on one core. A seed is one program: a few
statements on small arrays, with or without x64, compiled for this processor or an older level of
it. `--batch-size` sets how many programs are compiled as one. Compiling many as one takes a quarter
of the time, and it is the harder test. A program that fails is run again alone, reduced, and
printed as a script. `--ways` moves the thresholds of the cost models. `--sessions` runs sessions
instead, sequences of calls to functions that live on (`sessions`).

`rules` defines templates of statements, `catalog` holds the API as such templates, and `program`
programs as data. `operands`, `statements` and `nested` (loops, branches, transformations) draw the
parts of programs, and `generating` whole ones. `running` runs them, `judging` decides whether
results agree, `checking` and `batches` check one program and many, `reducing` shrinks failing
programs, `reporting` prints them, and `session` does all this for many seeds. `ways` holds the
thresholds. Known differences from JAX are listed in `checking`; `limits` judges singular points.
"""
