"""Trained routers. Empty for now: a later version brings training and export."""

from __future__ import annotations

__distribution__ = "carbon-gym"
