"""Programs compiled in this process by LLVM."""
