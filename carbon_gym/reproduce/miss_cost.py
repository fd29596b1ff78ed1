"""The figures of a lost cache: history, emissions and prefill time (SPEC §2), fleet by fleet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from carbon_gym.metrics.intervals import MIN_FLEETS_FOR_T
from carbon_gym.report.document import Measured
from carbon_gym.reproduce.figures import measured
from carbon_gym.scenario.schema import EnergyProfile
from carbon_gym.workload.trace import Floats, Ints, Trace


@dataclass(frozen=True, slots=True, eq=False)
class Turns:
    """Some turns of one fleet.

    Attributes:
        history: H, float64 (T,), tokens.
        fixed: X = q + ρ_o·o, float64 (T,): what a hit and a miss have in common, in uncached input
            tokens.
        session_turns: int64 (T,), turns that the session of each has.
        cached_ratio: ρ_c.
    """

    history: Floats
    fixed: Floats
    session_turns: Ints
    cached_ratio: float

    @classmethod
    def of(cls, trace: Trace, energy: EnergyProfile) -> Turns:
        """All turns of a trace."""
        return cls(
            trace.history_tokens.astype(np.float64),
            trace.prompt_tokens + energy.output_ratio * trace.output_tokens,
            trace.session_turns[trace.session],
            energy.cached_input_ratio,
        )

    @classmethod
    def joined(cls, fleets: Sequence[Turns]) -> Turns:
        """The turns of several fleets as one."""
        return cls(
            np.concatenate([turns.history for turns in fleets]),
            np.concatenate([turns.fixed for turns in fleets]),
            np.concatenate([turns.session_turns for turns in fleets]),
            fleets[0].cached_ratio,
        )

    def where(self, wanted: NDArray[np.bool_]) -> Turns:
        """Some of the turns, by a mask, bool (T,)."""
        history, fixed = self.history[wanted], self.fixed[wanted]
        return Turns(history, fixed, self.session_turns[wanted], self.cached_ratio)

    def between(self, low: float, high: float) -> Turns:
        """The turns with low ≤ H < high, tokens."""
        return self.where((self.history >= low) & (self.history < high))

    def of_sessions(self, least_turns: int) -> Turns:
        """The turns of the sessions that have at least so many."""
        return self.where(self.session_turns >= least_turns)

    @property
    def hit(self) -> Floats:
        """ρ_c·H + X, float64 (T,): energy in uncached input tokens where the history is cached."""
        return self.cached_ratio * self.history + self.fixed

    @property
    def miss(self) -> Floats:
        """H + X, float64 (T,): where nothing is."""
        return self.history + self.fixed

    def share(self, low: float, high: float = np.inf) -> float | None:
        """Share of the turns with low ≤ H < high, %."""
        if not len(self.history):
            return None
        return 100 * len(self.between(low, high).history) / len(self.history)

    def rise_of_medians(self) -> float | None:
        """How much the median over the turns rises if all of them miss, %."""
        if not len(self.history):
            return None
        return 100 * float(np.median(self.miss) / np.median(self.hit) - 1)

    def median_rise(self) -> float | None:
        """Median over the turns of how much each one rises, %."""
        return 100 * float(np.median(self.miss / self.hit) - 1) if len(self.history) else None

    def median_history(self) -> float | None:
        """Median H, tokens."""
        return float(np.median(self.history)) if len(self.history) else None

    def median_fixed(self) -> float | None:
        """Median X, uncached input tokens."""
        return float(np.median(self.fixed)) if len(self.fixed) else None

    def median_prefill_s(self, rates: Floats) -> float | None:
        """Median of H / rate over the turns and rates, s, each rate (tokens/s) counted alike."""
        if not len(self.history):
            return None
        return float(np.median(self.history[:, None] / rates[None, :]))


def implied_fixed(history: float, rise: float, cached_ratio: float) -> float:
    """X at which a miss of H tokens raises emissions by a given share, uncached input tokens.

    Args:
        history: H, tokens.
        rise: (H + X) / (ρ_c·H + X) − 1, positive.
        cached_ratio: ρ_c.

    Returns:
        (1 − ρ_c)·H / rise − ρ_c·H; negative where even X = 0 gives less.
    """
    return (1 - cached_ratio) * history / rise - cached_ratio * history


Figure = Callable[[Turns], float | None]
"""A number that some turns have; None: there is no turn to have it."""


def over_fleets(fleets: Sequence[Turns], figure: Figure) -> Measured | None:
    """A figure of some fleets: mean and t interval over them, or of all turns where they are few.

    Args:
        fleets: The fleets of one data set.
        figure: Of the turns of one fleet.

    Returns:
        None where no fleet has one.
    """
    values = [value for turns in fleets if (value := figure(turns)) is not None]
    if len(values) >= MIN_FLEETS_FOR_T:
        return measured(np.array(values))
    pooled = figure(Turns.joined(fleets))
    return None if pooled is None else Measured(pooled)
