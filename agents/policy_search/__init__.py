"""Learning a router on whole fleets: a linear rule is found, a network clones it, and evolves."""
