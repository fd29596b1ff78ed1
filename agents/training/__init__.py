"""Training runs of Stable-Baselines3 and sb3-contrib. Importing this loads no torch."""
