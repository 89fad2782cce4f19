"""What every room stands on: errors, units, numbers, results, the registry, and parsing at the edge."""
