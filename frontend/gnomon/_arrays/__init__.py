"""Arrays, what is known of them before a program runs, and where they are stored."""
