"""The arrays that the kernels work on, grouped by who may change them.

``Static`` never changes during a run, ``Turns`` is what arrives, ``State`` is the simulator's
memory, ``QuoteBuffers`` is what a quote writes and a policy reads, the ledger (an
array of ``OUTCOME``) is the account. Records keep together what one turn touches.
Shapes: D deployments, M models, R regions, U capacity units, B lanes, N turns of all lanes,
K session slots of all lanes.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Shape(NamedTuple):
    """What an array of a named tuple is made of, read by `carbon_gym.simulator.packed`."""

    dtype: Any
    ndim: int


Ints = Annotated[NDArray[np.int64], Shape(np.int64, 1)]
IntTable = Annotated[NDArray[np.int64], Shape(np.int64, 2)]
Int32s = Annotated[NDArray[np.int32], Shape(np.int32, 1)]
Int32Table = Annotated[NDArray[np.int32], Shape(np.int32, 2)]
Int32Cube = Annotated[NDArray[np.int32], Shape(np.int32, 3)]
Int8Table = Annotated[NDArray[np.int8], Shape(np.int8, 2)]
Floats = Annotated[NDArray[np.float64], Shape(np.float64, 1)]
FloatTable = Annotated[NDArray[np.float64], Shape(np.float64, 2)]
Float32Table = Annotated[NDArray[np.float32], Shape(np.float32, 2)]
# Indices are unsigned, so that numba need not look for negative ones.
Indices = Annotated[NDArray[np.uint32], Shape(np.uint32, 1)]
Keys = Annotated[NDArray[np.uint64], Shape(np.uint64, 1)]
Bools = Annotated[NDArray[np.bool_], Shape(np.bool_, 1)]
BoolTable = Annotated[NDArray[np.bool_], Shape(np.bool_, 2)]

NOWHERE = -1
"""No deployment, unit, slot or row."""


class Static(NamedTuple):
    """Fleet and rules (SPEC §1-§4)."""

    model: Indices  # (D,)
    region: Indices  # (D,)
    unit: Indices  # (D,)
    name_rank: Ints  # (D,)
    energy_kwh_per_token: Floats  # (D,) e_in
    cached_input_ratio: Floats  # (D,) ρ_c
    output_ratio: Floats  # (D,) ρ_o
    prefill_s_per_token: Floats  # (D,) 1 / prefill rate
    round_trip_s: Floats  # (D,)
    kv_bytes_per_token: Floats  # (D,)
    kv_room_bytes: Floats  # (D,) over all replicas; inf where memory is no bound
    pue: Floats  # (R,)
    context_tokens: Floats  # (M,)
    largest_context_tokens: float
    unit_share: Floats  # (U,)
    beta_q: float  # share of the best quality that admits: β_Q, or under a budget the floor
    beta_filter: float  # β_Q, whatever the constraint
    ttft_bound_s: float  # τ
    cache_ttl_s: float
    capacity_limit: float  # c; negative: no limit
    residency_s: float
    slot_s: float
    by_turns: bool  # capacity_rule = turns
    evict_on_leave: bool
    bounded_memory: bool  # the KV room bounds the caches
    full_cache: bool  # C = H everywhere: the lower bound's account (SPEC §10)
    one_session: bool  # a lane is one session and its slot; else a lane is a fleet


TURN = np.dtype(
    [
        ("arrival_s", np.float64),  # since the lane's origin
        ("predicted_output_tokens", np.float64),  # ô
        ("slot", np.int32),  # session slot, unique over all lanes
        ("turn", np.int32),
        ("prompt_tokens", np.int32),  # q
        ("history_tokens", np.int32),  # H
        ("output_tokens", np.int32),  # o: the account's only
        ("account_step", np.int32),  # row of `intensity` that the account uses
        ("router_step", np.int32),  # row of `intensity` that the router sees
    ],
    align=True,
)

SESSION = np.dtype(
    [
        ("last_row", np.int64),  # row of the session's previous turn, or NOWHERE
        ("previous", np.int32),  # deployment of the session's previous turn, or NOWHERE
        ("active_unit", np.int32),  # unit where the session is active, or NOWHERE
    ],
    align=True,
)

POOL = np.dtype(
    [
        ("used_bytes", np.float64),  # of the deployment's KV room
        ("newest", np.int32),  # ends of the list of slots by last use, or NOWHERE
        ("oldest", np.int32),
        ("evicted_until_s", np.float64),  # latest last use that memory pressure evicted, or -inf
    ],
    align=True,
)

OUTCOME = np.dtype(
    [
        ("energy_kwh", np.float64),
        ("co2_g", np.float64),
        ("ttft_s", np.float64),
        ("recompute_kwh", np.float64),  # e_in·(H − C) on turns after the first
        ("quality_predicted", np.float64),
        ("quality_realised", np.float64),
        ("deployment", np.int32),  # or NOWHERE
        ("cached_tokens", np.int32),  # C
        ("quality_violation", np.bool_),  # the model was not admissible
        ("ttft_violation", np.bool_),  # ttft above τ
        ("capacity_violation", np.bool_),  # the pool had no room
        ("switched", np.bool_),  # the previous turn was served elsewhere
    ],
    align=True,
)


class Turns(NamedTuple):
    """Everything that arrives, lane after lane, in the order of events within a lane."""

    turn: Annotated[NDArray[np.void], Shape(TURN, 1)]  # (N,)
    session_key: Keys  # (K,) the same for a session in every run
    quality_predicted: FloatTable  # (N, M)
    quality_realised: FloatTable  # (N, M): the account's only
    model_admissible: BoolTable  # (N, M) by the predicted quality and the models' contexts
    intensity: FloatTable  # (steps, R) gCO2eq/kWh
    # The traffic that a lane of one session meets; (1, ...) where there is none.
    others: Int32Table  # (N, U) other active sessions, or turns of others in the trailing slot
    unit_open: BoolTable  # (N, U) under the rule `sessions`, units with room amid the others
    evicted_until_s: FloatTable  # (N, D) caches last used by then have given way to others

    def at(self, rows: Any) -> Turns:
        """The turns of some rows (an index array or slice), as copies."""
        alone = len(self.others) == 1
        return self._replace(
            turn=self.turn[rows].copy(),
            quality_predicted=self.quality_predicted[rows].copy(),
            quality_realised=self.quality_realised[rows].copy(),
            model_admissible=self.model_admissible[rows].copy(),
            others=self.others if alone else self.others[rows].copy(),
            unit_open=self.unit_open if alone else self.unit_open[rows].copy(),
            evicted_until_s=self.evicted_until_s
            if len(self.evicted_until_s) == 1
            else self.evicted_until_s[rows].copy(),
        )


class State(NamedTuple):
    """Clock, caches and loads of every lane."""

    row: Ints  # (B,) current turn; equals stop when the lane is done
    begin: Ints  # (B,)
    stop: Ints  # (B,)
    held_tokens: Int32Table  # (K, D)
    last_use_s: FloatTable  # (K, D); -inf: nothing held
    holders: Int32Table  # (B, D) where a lone session's caches lie; (1, 1) where lanes are fleets
    holding: Ints  # (B,) how many of them
    links: Int32Cube  # (K, D, 2) slots used next after and before this one there, or NOWHERE
    pools: Annotated[NDArray[np.void], Shape(POOL, 2)]  # (B, D)
    sessions: Annotated[NDArray[np.void], Shape(SESSION, 1)]  # (K,)
    active: IntTable  # (B, U) active sessions per unit
    active_total: Ints  # (B,)
    window: Ints  # (B,) first row not yet left behind by residency or slot
    served: IntTable  # (B, U) turns of the trailing slot per unit
    served_total: Ints  # (B,)
    has_room: BoolTable  # (B, U) at the current quote
    path: Int32Table  # (B, longest lane) deployments of a lane's turns; (1, 1) where none is asked


class QuoteBuffers(NamedTuple):
    """One quote per lane: what a router sees at dispatch."""

    row: Ints  # (B,) or NOWHERE for a lane that is done
    slot: Ints  # (B,)
    session_key: Keys  # (B,)
    turn: Ints  # (B,)
    time_s: Floats  # (B,)
    prompt_tokens: Ints  # (B,)
    history_tokens: Ints  # (B,)
    predicted_output_tokens: Floats  # (B,)
    previous: Ints  # (B,)
    idle_s: Floats  # (B,) since the session's previous turn; inf on its first
    intensity: FloatTable  # (B, R) gCO2eq/kWh as the router sees it
    facility_intensity: FloatTable  # (B, R) PUE · intensity
    intensity_hour_ago: FloatTable  # (B, R) gCO2eq/kWh, as the router saw it then
    quality: FloatTable  # (B, M) predicted
    model_admissible: BoolTable  # (B, M)
    unit_available: BoolTable  # (B, U)
    unit_load: IntTable  # (B, U) other active sessions, or turns of the trailing slot
    unit_places: IntTable  # (B, U) how many of them the unit takes now; NOWHERE without a limit
    cached_tokens: Int32Table  # (B, D) C
    energy_kwh: FloatTable  # (B, D)
    co2_g: FloatTable  # (B, D)
    ttft_s: FloatTable  # (B, D)
    available: BoolTable  # (B, D)
    admissible: BoolTable  # (B, D)
    feasible: BoolTable  # (B, D)


class PriceBuffers(NamedTuple):
    """The cache-blind prices of the same turns (C = 0)."""

    energy_kwh: FloatTable  # (B, D)
    co2_g: FloatTable  # (B, D)
    ttft_s: FloatTable  # (B, D)
    feasible: BoolTable  # (B, D)
