"""Command-line tools: the compiler driver, the optimizer driver, the benchmark, the fuzzer."""
