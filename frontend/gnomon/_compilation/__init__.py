"""`jit`, its stages, and compiled programs."""
