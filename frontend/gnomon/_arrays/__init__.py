"""Arrays, their types, their values and the places where they are stored."""
