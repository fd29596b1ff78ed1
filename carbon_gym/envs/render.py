"""Rendering: text, frames and a window of an episode; matplotlib is imported when it is drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from carbon_gym.envs.record import Record
from carbon_gym.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH_PX, HEIGHT_PX = 1280, 720
"""Size of a frame; even, as video encoders want it."""
_DPI = 100


class Viewer:
    """Shows the episodes of one environment.

    Args:
        mode: "ansi", "rgb_array" or "human".
        fps: Pictures a second in a window.
    """

    def __init__(self, mode: str, fps: float) -> None:
        self._mode = mode
        self._pause_s = 1.0 / fps
        self._now: Record | None = None
        self._window: Figure | None = None

    # A window belongs to one process and one object.
    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_window": None}

    def begin(self, record: Record) -> None:
        """Show a new episode from here on."""
        self._now = record
        if self._mode == "human":
            self._show()

    def add(self, info: dict[str, Any]) -> None:
        """Show a turn just served."""
        self.record.add(info)
        if self._mode == "human":
            self._show()

    def render(self) -> str | NDArray[np.uint8] | None:
        """What the mode gives: text, a frame uint8 (720, 1280, 3), or None (a window)."""
        if self._mode == "ansi":
            return self.record.new_text()
        if self._mode == "rgb_array":
            return frame(self.record)
        self._show()
        return None

    @property
    def record(self) -> Record:
        """The episode that is shown."""
        if self._now is None:
            raise RuntimeError("call reset() first: there is nothing to show")
        return self._now

    def _show(self) -> None:
        from matplotlib import pyplot

        from carbon_gym.envs.picture import draw, look

        if self._window is None or not pyplot.fignum_exists(self._window.number):
            self._window = _open_window()
        with look():
            self._window.clear()
            draw(self._window, self.record)
            self._window.canvas.draw()
        self._window.show()
        self._window.canvas.start_event_loop(self._pause_s)

    def close(self) -> None:
        """Close the window."""
        if self._window is not None:
            from matplotlib import pyplot

            pyplot.close(self._window)
            self._window = None


_SIZE_IN = (WIDTH_PX / _DPI, HEIGHT_PX / _DPI)


def frame(record: Record) -> NDArray[np.uint8]:
    """The picture of an episode, uint8 (720, 1280, 3); no display and no pyplot is used."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg as Canvas
    from matplotlib.figure import Figure

    from carbon_gym.envs.picture import draw, look

    with look():
        figure = Figure(figsize=_SIZE_IN, dpi=_DPI)
        canvas: Any = Canvas(figure)  # its methods are not typed
        draw(figure, record)
        canvas.draw()
    return np.array(canvas.buffer_rgba(), dtype=np.uint8)[:, :, :3].copy()


def _open_window() -> Figure:
    """A window with an empty figure.

    Raises:
        InputError: matplotlib has none here.
    """
    from matplotlib import backends, pyplot

    registry: Any = backends.backend_registry  # type: ignore[attr-defined, unused-ignore]
    try:
        backend, toolkit = registry.resolve_backend(None)
        if toolkit is None:
            raise ImportError(f"its backend {backend} opens no window")
        with pyplot.ioff():  # else it would be shown while it is empty
            return pyplot.figure(figsize=_SIZE_IN, dpi=_DPI)
    except Exception as error:  # the toolkits' errors have no base in common
        raise InputError(
            f"render_mode = 'human' is not possible here: matplotlib cannot open a window "
            f"({error}); use render_mode = 'rgb_array', or a machine with a display"
        ) from error
