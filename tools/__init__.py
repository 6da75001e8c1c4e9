"""Command-line tools: the compiler driver, the optimizer driver, and the benchmark."""
