"""The verbs compiled: quote, choose, commit over preallocated arrays (SPEC §2, §3, §5, §10).

What they are made of stands beside them: formulas in `pricing`, a lane's quote in `quoting`, the
cheapest rule in `choosing`, the account in `accounting`, capacity in `capacity`, the KV caches in
`caches`. ``NUMBA_DISABLE_JIT=1`` runs the same code as plain Python. How kernels are compiled, and
what that forbids: `carbon_gym.simulator.jit`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from carbon_gym.simulator.accounting import account, move_on
from carbon_gym.simulator.arrays import (
    NOWHERE,
    BoolTable,
    FloatTable,
    Ints,
    PriceBuffers,
    QuoteBuffers,
    State,
    Static,
    Turns,
)
from carbon_gym.simulator.choosing import OVERFULL, cheapest_of_lane
from carbon_gym.simulator.jit import inlined, kernel
from carbon_gym.simulator.pricing import energy_of, filter_models, fresh_tokens, ttft_of
from carbon_gym.simulator.quoting import admit, find_feasible, quote_lane


@kernel
def quote_cache_blind(s: Static, q: QuoteBuffers, out: PriceBuffers) -> None:
    """The prices of the quoted turns as if nothing were cached anywhere (C = 0)."""
    for b in range(q.row.shape[0]):
        if q.row[b] == NOWHERE:
            continue
        fresh = fresh_tokens(q.history_tokens[b], 0, q.prompt_tokens[b])
        for d in range(s.model.shape[0]):
            energy = energy_of(s, d, 0, fresh, q.predicted_output_tokens[b])
            ttft = ttft_of(s, d, fresh)
            out.energy_kwh[b, d] = energy
            out.co2_g[b, d] = q.facility_intensity[b, s.region[d]] * energy
            out.ttft_s[b, d] = ttft
            out.feasible[b, d] = q.available[b, d] and q.admissible[b, d] and ttft <= s.ttft_bound_s


@kernel
def admit_anew(s: Static, q: QuoteBuffers) -> None:
    """The quoted turns' admissible models, and what follows from them, by the share in `s`."""
    for b in range(q.row.shape[0]):
        if q.row[b] == NOWHERE:
            continue
        asked = q.history_tokens[b] + q.prompt_tokens[b]
        needed = asked + q.predicted_output_tokens[b]
        filter_models(s, q.quality[b], needed, q.model_admissible[b])
        admit(s, q.model_admissible[b], q.admissible[b])
        find_feasible(s, q, b)


@kernel
def cheapest(
    rank: Ints,
    row: Ints,
    co2_g: FloatTable,
    ttft_s: FloatTable,
    feasible: BoolTable,
    available: BoolTable,
    admissible: BoolTable,
    choice: Ints,
    how: Ints,
) -> None:
    """The cheapest feasible quote of every lane, with the best-effort rules of SPEC §5.

    Ties: lower CO2, then lower TTFT, then name. If only the TTFT bound leaves nothing: the
    shortest TTFT among available and admissible; if no available deployment is admissible: the
    shortest TTFT among admissible ones anywhere (ties: lower CO2, then name). A lane without any
    admissible deployment, or that is done, gets NOWHERE.
    """
    for b in range(row.shape[0]):
        choice[b] = NOWHERE
        how[b] = OVERFULL
        if row[b] != NOWHERE:
            choice[b], how[b] = cheapest_of_lane(
                rank, co2_g[b], ttft_s[b], feasible[b], available[b], admissible[b]
            )


@inlined
def _commit_lane(
    s: Static,
    turns: Turns,
    state: State,
    ledger: NDArray[np.void],
    b: int,
    d: int,
) -> None:
    """Serve the quoted turn of lane `b` on deployment `d` and move the lane on."""
    account(s, turns, state, ledger, state.row[b], b, d)
    move_on(s, turns, state, b, d)


@kernel
def quote(s: Static, turns: Turns, state: State, ledger: NDArray[np.void], q: QuoteBuffers) -> None:
    """Quote the current turn of every lane; lanes that are done get row NOWHERE."""
    for b in range(state.row.shape[0]):
        q.row[b] = NOWHERE
        if state.row[b] < state.stop[b]:
            quote_lane(s, turns, state, ledger, q, b, b, state.row[b])


@kernel
def commit(
    s: Static,
    turns: Turns,
    state: State,
    ledger: NDArray[np.void],
    actions: Ints,
) -> None:
    """Commit the quoted turn of every lane."""
    for b in range(state.row.shape[0]):
        if state.row[b] < state.stop[b]:
            _commit_lane(s, turns, state, ledger, b, actions[b])


@kernel
def commit_and_quote(
    s: Static,
    turns: Turns,
    state: State,
    ledger: NDArray[np.void],
    q: QuoteBuffers,
    actions: Ints,
) -> None:
    """`commit`, then `quote`, lane by lane: a lane's data are touched while they are at hand."""
    for b in range(state.row.shape[0]):
        q.row[b] = NOWHERE
        if state.row[b] < state.stop[b]:
            _commit_lane(s, turns, state, ledger, b, actions[b])
            if state.row[b] < state.stop[b]:
                quote_lane(s, turns, state, ledger, q, b, b, state.row[b])


@kernel
def valid(row: Ints, stop: Ints, actions: Ints, deployments: int) -> bool:
    """Whether every lane that is not done has an action in 0..deployments - 1."""
    for b in range(row.shape[0]):
        if row[b] < stop[b] and (actions[b] < 0 or actions[b] >= deployments):
            return False
    return True
