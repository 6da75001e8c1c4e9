"""`grad`, `vmap` and the other transformations, and custom rules."""
