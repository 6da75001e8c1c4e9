"""Complex numbers as pairs of real numbers, through whole programs."""
