"""Trained routers on NumPy alone: the forward pass of the deployment scorer, and its file.

Nothing here needs what trained them. `plan` says what the network sees, `weights` is the file,
`kernels` the same computation compiled (numba is imported when a router is made, if it is there).
"""

from carbon_gym.router.router import Router, load_router

__all__ = ["Router", "load_router"]
