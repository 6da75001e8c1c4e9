"""Options: their declarations, the values in force, and their context managers."""
