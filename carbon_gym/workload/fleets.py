"""The one door to traces: fleet after fleet, generated or from the user's conversations."""

from __future__ import annotations

import numpy as np

from carbon_gym.errors import InputError
from carbon_gym.scenario.schema import Quality, Seeds, Split, Splits, Workload
from carbon_gym.workload.days import (
    Days,
    day_of_sessions,
    eligible_sessions,
    evaluation_days,
    keyed_order,
)
from carbon_gym.workload.fleet_trace import build_trace
from carbon_gym.workload.generator import generate_sessions, session_keys
from carbon_gym.workload.readers import read_conversations
from carbon_gym.workload.sessions import (
    rows_per_session,
    rows_within_limit,
    select_sessions,
    session_category,
    session_of_row,
)
from carbon_gym.workload.statistics import load_statistics
from carbon_gym.workload.trace import Conversations, Ints, Trace


class Fleets:
    """Traces of a scenario's workload.

    A fleet is one day of arrivals. `trace` gives the fleets of a split, as many as wanted, for
    training and for comparisons on generated sessions; for the evaluation of a conversation file,
    `plan` deals its sessions to days and `day_trace` gives one of them. Fleets are independent of
    each other and of the order in which they are asked for; the object holds no other state.

    Attributes:
        statistics: The statistics in use, also for a file: prior of ô, hours, category shares.
        category_shares: From which unknown categories are drawn: the workload's own, else those
            of the statistics.
        conversations: The file's sessions; None for the generated source.
        prior_tokens: Prior of ô, tokens (SPEC §5).
    """

    def __init__(self, workload: Workload, quality: Quality, splits: Splits, seeds: Seeds) -> None:
        self.workload = workload
        self.quality = quality
        self.splits = splits
        self.seeds = seeds
        self.statistics = load_statistics(workload.statistics)
        self.prior_tokens = (
            workload.predicted_output_prior_tokens or self.statistics.reply_mean_tokens
        )
        self.category_shares = workload.category_shares or self.statistics.category_shares
        self.conversations: Conversations | None = None
        if workload.source == "file":
            assert workload.path is not None
            assert workload.format is not None
            self.conversations = read_conversations(
                workload.path, workload.format, workload.tokenizer, workload.log_column
            )

    @property
    def source(self) -> str:
        """One line for the report."""
        if self.conversations is not None:
            return self.conversations.source
        return f"generated from the {self.statistics.name} statistics"

    def draw_notes(self) -> tuple[str, ...]:
        """How the conversations were read, and which seed drew what they do not say."""
        notes: list[str] = []
        file = self.conversations
        if file is None:
            notes.append(f"sessions: generated (seeds.workload = {self.seeds.workload})")
        else:
            notes.extend(file.notes)
        if file is None or file.arrival_s is None:
            notes.append(
                f"arrivals: drawn, {self.workload.dispersion:g} times Poisson's variance per "
                f"minute, gaps log-normal (seeds.arrivals = {self.seeds.arrivals}); hours: "
                f"{self.statistics.hour_shape_source}"
            )
        silent = self._sessions_without_category()
        asked = self.workload.category_shares is not None
        if silent:
            shares = (
                "workload.category_shares"
                if asked
                else f"the shares of the {self.statistics.name} statistics"
            )
            notes.append(
                f"categories: of {silent} drawn from {shares} "
                f"(seeds.quality = {self.seeds.quality})"
            )
        elif asked:
            notes.append(
                "categories: workload.category_shares changes nothing; every session of the file "
                "has its own"
            )
        notes.append(
            f"difficulty and predictor error: drawn (seeds.quality = {self.seeds.quality})"
        )
        return tuple(notes)

    def trace(self, fleet_index: int, origin_unix_s: int, split: Split) -> Trace:
        """Fleet `fleet_index` of a split.

        Generated: the first `sessions_per_fleet` candidates of the fleet that keep at least
        `min_turns` turns. From a file without arrivals: a keyed sample of the split, without
        repeats; with arrivals: the split's sessions of one day of the file, days going round.

        Args:
            fleet_index: Not negative.
            origin_unix_s: Start of the grid day, seconds since 1970-01-01 UTC.
            split: Whose sessions.
        """
        if self.conversations is None:
            sessions = self._generated(fleet_index, split)
        else:
            sessions = select_sessions(
                self.conversations, self._sampled(self.conversations, fleet_index, split)
            )
        return self._build(sessions, fleet_index, origin_unix_s)

    def plan(
        self,
        days: int,
        split: Split | None = None,
        sessions_per_fleet: int | None = None,
        once: bool = False,
    ) -> Days:
        """Sessions of the file for every evaluation day; see `evaluation_days`."""
        return evaluation_days(
            self._file(),
            days,
            self.splits,
            self.seeds,
            split,
            sessions_per_fleet,
            self.workload.min_turns,
            once,
        )

    def day_trace(self, plan: Days, day: int, origin_unix_s: int) -> Trace:
        """Trace of day `day` of a plan, laid on the grid day that starts at `origin_unix_s`."""
        sessions = select_sessions(self._file(), plan.sessions[day])
        return self._build(sessions, day, origin_unix_s)

    def _file(self) -> Conversations:
        if self.conversations is None:
            raise InputError(
                "workload.source is 'generated'; days are dealt from a conversation file only"
            )
        return self.conversations

    def _sessions_without_category(self) -> str:
        """Which sessions have no known category, in words; empty if all have one."""
        file = self.conversations
        if file is None:
            return "all sessions"
        known = session_category(file.category, session_of_row(file.offsets), file.sessions) >= 0
        missing = int(np.count_nonzero(~known))
        if missing == file.sessions:
            return "all sessions"
        return f"{missing} sessions" if missing else ""

    def _build(self, sessions: Conversations, fleet_index: int, origin_unix_s: int) -> Trace:
        return build_trace(
            sessions,
            origin_unix_s,
            fleet_index,
            self.workload,
            self.quality,
            self.seeds,
            self.prior_tokens,
            self.statistics.hour_shape,
            self.category_shares.in_order(),
        )

    def _generated(self, fleet_index: int, split: Split) -> Conversations:
        """Whole sessions, up to the last one needed for `sessions_per_fleet` that stay."""
        wanted = self.workload.sessions_per_fleet
        least = max(1, self.workload.min_turns)
        candidates = wanted + wanted // 50
        while True:
            keys = session_keys(split, fleet_index, candidates, self.splits, self.seeds.split)
            sessions = generate_sessions(self.statistics, keys, self.seeds.workload, least)
            within = rows_within_limit(sessions, self.workload.context_limit_tokens)
            stays = np.cumsum(rows_per_session(within, sessions.offsets) >= least)
            if wanted == 0 or (len(stays) and stays[-1] >= wanted):
                last = int(np.searchsorted(stays, wanted)) + 1 if wanted else 0
                return select_sessions(sessions, np.arange(last, dtype=np.int64))
            if candidates > 20 * wanted + 1000:
                raise InputError(
                    f"workload: hardly any session keeps {least} turns under "
                    f"context_limit_tokens = {self.workload.context_limit_tokens}; lower min_turns "
                    "or raise the limit"
                )
            candidates += candidates // 2 + 16

    def _sampled(self, file: Conversations, fleet_index: int, split: Split) -> Ints:
        chosen = eligible_sessions(file, self.splits, self.seeds, split, self.workload.min_turns)
        if file.arrival_s is not None:
            day = day_of_sessions(file)[chosen]
            present = np.unique(day)
            chosen = chosen[day == present[fleet_index % len(present)]]
        keys = file.session_key[chosen]
        order = keyed_order(keys, self.seeds.arrivals, "sample", fleet_index)
        return np.sort(chosen[order[: self.workload.sessions_per_fleet]])
