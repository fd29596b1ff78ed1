"""What a fleet would save: its present rule beside CCAR and the learned routers."""
