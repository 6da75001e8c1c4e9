"""What is done to the StableHLO that a program is lowered to."""
