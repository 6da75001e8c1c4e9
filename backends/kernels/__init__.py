"""Programs as loops over scalars, which each target compiles."""
