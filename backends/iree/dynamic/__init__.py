"""Programs with symbolic dimensions that are compiled once for all sizes."""
