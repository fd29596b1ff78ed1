"""Carbon intensity of the regions: read from files or generated from measured statistics."""
