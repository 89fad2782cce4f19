"""What a rank keeps: weights by name and index range, read, written and made up; what it shares, and the optimizer."""
