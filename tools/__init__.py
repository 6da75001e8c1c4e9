"""Tools: the driver ``gnomon``, ``gnomon-opt``, benchmarks, the fuzzer, generated pages."""
