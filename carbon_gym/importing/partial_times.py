"""Arrivals where some messages of a data set have no time, or a wrong one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from carbon_gym.workload.sessions import select_sessions, session_of_row
from carbon_gym.workload.trace import Conversations, Floats


def with_arrivals(conversations: Conversations, times: Floats) -> Conversations:
    """The sessions whose turns all have times that do not decrease; or all of them without times.

    Public data sets have a few messages without a time. Where at least half of the sessions have
    times for all turns, the others are left out; where fewer have, all sessions are kept and the
    times are left out, since arrivals must be there for all rows or for none.

    Args:
        conversations: Sessions without arrivals.
        times: float64 (N,), seconds since 1970-01-01 UTC, NaN where unknown.
    """
    session = session_of_row(conversations.offsets)
    wrong = np.isnan(times)
    if wrong.all():
        return conversations
    wrong[1:] |= (np.diff(times) < 0) & (session[1:] == session[:-1])
    bad = np.bincount(session, weights=wrong, minlength=conversations.sessions) > 0
    if 2 * int(bad.sum()) > conversations.sessions:
        said = (
            f"times left out: {int(bad.sum())} of {conversations.sessions} sessions have turns "
            "without a time, or times that go back"
        )
        return replace(conversations, notes=(*conversations.notes, said))
    notes = conversations.notes
    if bad.any():
        notes = (
            *notes,
            f"{int(bad.sum())} sessions left out: turns without a time, or times that go back",
        )
    timed = replace(conversations, arrival_s=times, absolute_time=True, notes=notes)
    return select_sessions(timed, np.flatnonzero(~bad))
