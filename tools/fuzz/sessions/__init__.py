"""Sessions: random sequences of calls to functions that live on.

A program of the fuzzer makes a function, uses it once, and drops it. A session has a pool of
functions: some of `prelude`, and others that `derivations` makes of those by transformations, by
wrapping, copying and pickling. It calls them in contexts and from threads, changes what they read,
clears the caches, and repeats all calls in another order. Each call must give what it gives with
functions that are made for this call alone.

`drawing` draws the session of a seed, `running` runs it and judges it, and `exploring` does so for
many seeds, in child processes, and shrinks failures.
"""
