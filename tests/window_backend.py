"""A matplotlib backend that pretends to open windows, for machines without a display."""

from __future__ import annotations

from matplotlib.backend_bases import FigureManagerBase
from matplotlib.backends.backend_agg import FigureCanvasAgg

shown: list[int] = []
"""Numbers of the windows, once for every time they were shown."""
pauses_s: list[float] = []


class FigureManager(FigureManagerBase):
    def show(self) -> None:
        shown.append(self.num)


class FigureCanvas(FigureCanvasAgg):
    required_interactive_framework = "pretended"
    manager_class = FigureManager

    def start_event_loop(self, timeout: float = 0) -> None:
        pauses_s.append(timeout)
