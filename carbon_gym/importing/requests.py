"""From requests, each with its whole prompt, to the turns of sessions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from carbon_gym.errors import InputError, did_you_mean
from carbon_gym.workload.log import Log
from carbon_gym.workload.readers.build import keys_of_ids, order_of_ids
from carbon_gym.workload.sessions import offsets_of, sum_before
from carbon_gym.workload.trace import Conversations, Floats, Ints

Prompts = Literal["auto", "whole", "new"]

_MOST: Final = 0.5
"""Share of later prompts long enough for their history, from which on all hold it (ASSUMED)."""
PROMPTS: Final[tuple[Prompts, ...]] = ("auto", "whole", "new")
"""What the prompt tokens of a log count: the whole prompt with its history, or new words only."""


@dataclass(frozen=True, slots=True)
class Requests:
    """The requests of a log, a row each, in the order of the file.

    Attributes:
        session: int64 (N,), index into `names`; None: the log knows no sessions.
        names: Ids of the sessions.
        time_s: float64 (N,), or None. Seconds since 1970-01-01 UTC if `absolute_time`, else
            since the start of the trace.
        absolute_time: Whether `time_s` is calendar time.
        prompt_tokens: int64 (N,).
        output_tokens: int64 (N,).
        cached_tokens: int64 (N,), prompt tokens found in a cache, -1 where unknown; or None.
        line: int64 (N,), line of every row in the file.
        log: Where every request was served; None where that is not known.
    """

    session: Ints | None
    names: Sequence[str]
    time_s: Floats | None
    absolute_time: bool
    prompt_tokens: Ints
    output_tokens: Ints
    cached_tokens: Ints | None
    line: Ints
    log: Log | None = None


def checked_prompts(text: str) -> Prompts:
    """The rule of that name.

    Raises:
        InputError: There is none.
    """
    for rule in PROMPTS:
        if text == rule:
            return rule
    raise InputError(
        f"--prompts {text!r} is not known; {did_you_mean(text, PROMPTS)}use one of "
        f"{', '.join(PROMPTS)}"
    )


def sessions_of(
    path: Path, requests: Requests, prompts: Prompts, label: str, notes: Sequence[str]
) -> Conversations:
    """Turns of the requests: sessions in their fixed order, requests by time within.

    Where prompts are whole, the history of a turn is the prompt and the reply before it; a prompt
    that is shorter was cut by the client, and of its history only what was found in a cache is
    known. Where prompts hold new words only, the history is everything before.

    Args:
        path: The file, for messages.
        requests: At least one.
        prompts: ``"auto"`` takes prompts for whole if at least half of the later turns are at
            least as long as the prompt and the reply before them.
        label: The format, for the source line.
        notes: What was done on reading.
    """
    said = list(notes)
    count = len(requests.line)
    if requests.session is None:
        names: Sequence[str] = [str(line) for line in requests.line.tolist()]
        session = np.arange(count, dtype=np.int64)
        said.append("no sessions in the file: every request is a session of its own")
    else:
        names, session = requests.names, requests.session
    by_name = order_of_ids(names)
    rank = np.empty(len(names), dtype=np.int64)
    rank[by_name] = np.arange(len(names))
    code = rank[session]
    time = np.zeros(count) if requests.time_s is None else requests.time_s
    order = np.lexsort((np.arange(count), time, code))
    code = code[order]
    offsets = offsets_of(np.bincount(code, minlength=len(names)))
    prompt, output = requests.prompt_tokens[order], requests.output_tokens[order]
    cached = None if requests.cached_tokens is None else requests.cached_tokens[order]
    later = np.zeros(count, dtype=np.bool_)
    later[1:] = code[1:] == code[:-1]
    before = np.zeros(count, dtype=np.int64)
    before[1:] = np.where(later[1:], prompt[:-1] + output[:-1], 0)
    whole = prompts == "whole" or (prompts == "auto" and _look_whole(prompt, before, later))
    if whole:
        cut = later & (prompt < before)
        floor = np.zeros(count, dtype=np.int64) if cached is None else np.maximum(cached, 0)
        history = np.where(cut, np.minimum(floor, prompt), before)
        new = prompt - history
        if later.any():
            said.append("prompt tokens hold the history: new tokens are what came after it")
        if cut.any():
            said.append(
                f"{int(cut.sum())} prompts are shorter than the turn before: their history is "
                + ("unknown" if cached is None else "what was found in a cache")
            )
    else:
        new, history = prompt, sum_before(prompt + output, offsets)
        said.append("prompt tokens are new words only: the history is everything before")
    if cached is not None and (cached >= 0).any():
        known = cached >= 0
        share = cached[known].sum() / max(int(prompt[known].sum()), 1)
        where = (
            "" if known.all() else f", in {int(known.sum()):,} of {count:,} requests that say it"
        )
        said.append(f"the servers found {100 * share:.1f} % of the prompt tokens in a cache{where}")
    ids = [names[s] for s in by_name]
    return Conversations(
        session_id=tuple(ids),
        session_key=keys_of_ids(ids),
        offsets=offsets,
        prompt_tokens=new,
        history_tokens=history,
        output_tokens=output,
        category=np.full(count, -1, dtype=np.int8),
        arrival_s=None if requests.time_s is None else time[order],
        absolute_time=requests.absolute_time,
        source=f"{path.name} ({label})",
        notes=tuple(said),
        log=None if requests.log is None else requests.log.at(order),
    )


def _look_whole(prompt: Ints, before: Ints, later: NDArray[np.bool_]) -> bool:
    return not later.any() or float(np.mean(prompt[later] >= before[later])) >= _MOST
