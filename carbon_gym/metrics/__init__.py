"""What a run amounts to: rows of results with intervals."""
