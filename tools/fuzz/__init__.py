"""A fuzzer: random programs over the public API; jitted results are compared with eager and JAX.

    python -m gnomon.tools.fuzz --programs 10000 --output findings.txt

runs the programs of the seeds 0 to 9999, in about an hour on one core. A seed is one program: a few
  statements on small arrays, with or without x64, compiled for this processor or an older level of
  it. `--batch-size` sets how many programs are compiled as one. This costs a quarter of the time,
  and it is the harder test. A program that fails is run again alone, reduced, and printed as a
  script.

`catalog` holds the API as templates of statements, `program` programs as data; `generating` draws
programs, `running` runs them, `judging` decides whether results agree, `checking` and `batches`
check one program and many, `reducing` shrinks failing programs, `reporting` prints them, and
`session` does all this for many seeds. Known differences from JAX are listed in `checking`.
"""
