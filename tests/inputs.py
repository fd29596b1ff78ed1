"""Small input files, written by tests as a user would have them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

ZONES = ("US-CAL-CISO", "GB")
"""Zones of the `tiny` scenario."""
MONDAY = datetime(2023, 5, 8, tzinfo=UTC)


def iso(moment: datetime) -> str:
    """A time as files have it: 2023-05-08T01:00:00Z."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def intensity(zone: int, hour: int) -> float:
    """A made-up carbon intensity, gCO2eq/kWh, whose cleaner zone changes every six hours."""
    return 300.0 + 200.0 * ((hour // 6 + zone) % 2) + hour % 6


def write_grid(
    path: Path,
    *,
    start: datetime = MONDAY,
    hours: int = 72,
    zones: Sequence[str] = ZONES,
    value: Callable[[int, int], float] = intensity,
) -> Path:
    """A wide hourly grid file; `value` is asked with the zone's number and the hour's."""
    rows = [",".join(("datetime_utc", *zones))]
    for hour in range(hours):
        cells = [str(value(zone, hour)) for zone in range(len(zones))]
        rows.append(",".join((iso(start + timedelta(hours=hour)), *cells)))
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


Turn = tuple[int, int]
"""Prompt and reply tokens."""


def turns_of(session: int) -> list[Turn]:
    """Made-up turns of a session: 1 to 9, of a few hundred tokens."""
    count = 1 + session * 7 % 9
    return [(20 + 13 * session % 90 + 5 * k, 80 + 37 * (session + k) % 400) for k in range(count)]


def write_tokens(
    path: Path,
    sessions: int = 30,
    *,
    turns: Callable[[int], list[Turn]] = turns_of,
    arrival: Callable[[int, int], str] | None = None,
    features: bool = False,
) -> Path:
    """A `tokens` file; `arrival` is asked with the session's and the turn's number."""
    names = ["session", "turn", "prompt_tokens", "output_tokens"]
    names += ["arrival"] if arrival else []
    names += ["task_guess"] if features else []
    rows = [",".join(names)]
    for session in range(sessions):
        for turn, (prompt, reply) in enumerate(turns(session)):
            cells = [f"s{session}", str(turn), str(prompt), str(reply)]
            cells += [arrival(session, turn)] if arrival else []
            cells += [("code", "explain", "other")[session % 3]] if features else []
            rows.append(",".join(cells))
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path
