"""Making a simulator's arrays: everything that the kernels work on, allocated once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from carbon_gym.errors import InputError
from carbon_gym.fleet.deployments import Deployments
from carbon_gym.grid.series import STEP_S, GridSeries, iso_utc
from carbon_gym.quality.checked import checked_quality, read_only
from carbon_gym.quality.predictor import QualityPredictor
from carbon_gym.scenario.scenario import Scenario
from carbon_gym.simulator.arrays import (
    NOWHERE,
    OUTCOME,
    POOL,
    SESSION,
    TURN,
    Floats,
    Ints,
    PriceBuffers,
    QuoteBuffers,
    State,
    Static,
    Turns,
)
from carbon_gym.simulator.pricing import filter_all
from carbon_gym.simulator.quotes import Quotes
from carbon_gym.workload.trace import Trace


def static_of(
    scenario: Scenario,
    fleet: Deployments,
    full_cache: bool,
    one_session: bool,
    unbounded: bool,
) -> Static:
    """Fleet and rules of a scenario as the kernels read them."""
    limit = scenario.capacity.limit
    pressure = scenario.cache.memory_pressure and not unbounded
    return Static(
        model=fleet.model.astype(np.uint32),
        region=fleet.region.astype(np.uint32),
        unit=fleet.unit.astype(np.uint32),
        name_rank=fleet.name_rank,
        energy_kwh_per_token=fleet.energy_kwh_per_token,
        cached_input_ratio=fleet.cached_input_ratio,
        output_ratio=fleet.output_ratio,
        prefill_s_per_token=1.0 / fleet.prefill_tokens_per_s,
        round_trip_s=fleet.round_trip_s,
        kv_bytes_per_token=fleet.kv_bytes_per_token,
        kv_room_bytes=fleet.kv_room_bytes if pressure else np.full(len(fleet), np.inf),
        pue=fleet.pue,
        context_tokens=fleet.context_tokens.astype(np.float64),
        largest_context_tokens=float(fleet.context_tokens.max()),
        unit_share=fleet.unit_share,
        beta_q=scenario.bounds.admissible_share,
        beta_filter=scenario.bounds.beta_q,
        ttft_bound_s=scenario.bounds.ttft_s,
        cache_ttl_s=scenario.cache.ttl_s,
        capacity_limit=-1.0 if limit is None or unbounded else limit,
        residency_s=scenario.capacity.residency_s,
        slot_s=scenario.capacity.slot_s,
        by_turns=scenario.capacity.rule == "turns",
        bounded_memory=pressure and not one_session,
        evict_on_leave=scenario.cache.on_leave == "evict",
        full_cache=full_cache,
        one_session=one_session,
    )


def rows_by_session(trace: Trace) -> Ints:
    """Rows of a trace put session after session, each in turn order."""
    return np.lexsort((trace.turn, trace.session))


def turns_of(
    scenario: Scenario,
    static: Static,
    traces: Sequence[Trace],
    orders: Sequence[Ints | None],
    grid: GridSeries,
    predictor: QualityPredictor,
    staleness_s: float,
) -> tuple[Turns, list[int]]:
    """The rows of all lanes and the number of rows of each lane."""
    models = scenario.fleet.models
    series = grid.select([region.zone for region in scenario.fleet.regions])
    turns: list[NDArray[np.void]] = []
    predicted: list[Floats] = []
    realised: list[Floats] = []
    lengths: list[int] = []
    first_slot = 0
    for trace, order in zip(traces, orders, strict=True):
        account_step, router_step = _grid_steps(trace, series, staleness_s)
        turn = np.zeros(trace.turns, dtype=TURN)
        turn["slot"] = trace.session + first_slot
        turn["turn"] = trace.turn
        turn["arrival_s"] = trace.arrival_s
        turn["prompt_tokens"] = trace.prompt_tokens
        turn["history_tokens"] = trace.history_tokens
        turn["output_tokens"] = trace.output_tokens
        turn["predicted_output_tokens"] = trace.predicted_output_tokens
        turn["account_step"] = account_step
        turn["router_step"] = router_step
        rows = slice(None) if order is None else order
        turns.append(turn[rows])
        for method, told in (("predict", predicted), ("realised_quality", realised)):
            with read_only(trace):
                said = getattr(predictor, method)(trace, models)
            told.append(checked_quality(said, trace.turns, len(models), method)[rows])
        first_slot += trace.sessions
        lengths += [trace.turns] if order is None else trace.session_turns.tolist()
    turn, quality = np.concatenate(turns), np.concatenate(predicted)
    admissible = np.zeros(quality.shape, dtype=np.bool_)
    filter_all(static, turn, quality, admissible)
    return (
        Turns(
            turn=turn,
            session_key=np.concatenate([trace.session_key for trace in traces]),
            quality_predicted=quality,
            quality_realised=np.concatenate(realised),
            model_admissible=admissible,
            intensity=np.ascontiguousarray(series.values),
            others=np.zeros((1, len(static.unit_share)), dtype=np.int32),
            unit_open=np.ones((1, len(static.unit_share)), dtype=np.bool_),
            evicted_until_s=np.full((1, len(static.model)), -np.inf),
        ),
        lengths,
    )


def _grid_steps(trace: Trace, series: GridSeries, staleness_s: float) -> tuple[Ints, Ints]:
    """Rows of the last values published by each turn: the account's and the router's."""
    now_s = trace.arrival_s + (trace.origin_unix_s - series.start_unix_s)
    account = np.floor(now_s / STEP_S).astype(np.int64)
    router = np.floor((now_s - staleness_s) / STEP_S).astype(np.int64)
    if len(account) and (account.min() < 0 or account.max() >= len(series.values)):
        last_s = trace.origin_unix_s + float(trace.arrival_s.max())
        raise InputError(
            f"grid: {series.source or 'the series'} covers {iso_utc(series.start_unix_s)} to "
            f"{iso_utc(series.stop_unix_s)}, but the turns run from "
            f"{iso_utc(trace.origin_unix_s)} to {iso_utc(last_s)}; choose days inside it"
        )
    # Before the series begins nothing was published: the router sees its first value.
    return account, np.maximum(router, 0)


def empty_state(static: Static, fleet: Deployments, bounds: Ints, slots: int) -> State:
    """Empty caches, no load, every lane at its first row."""
    longest = int(np.diff(bounds).max(initial=1)) if static.one_session and static.by_turns else 1
    lanes, deployments, units = len(bounds) - 1, len(fleet), len(fleet.unit_share)
    return State(
        row=bounds[:-1].copy(),
        begin=bounds[:-1].copy(),
        stop=bounds[1:].copy(),
        held_tokens=np.zeros((slots, deployments), dtype=np.int32),
        last_use_s=np.full((slots, deployments), -np.inf),
        holders=np.zeros((lanes, deployments) if static.one_session else (1, 1), dtype=np.int32),
        holding=np.zeros(lanes, dtype=np.int64),
        links=np.full((slots if static.bounded_memory else 1, deployments, 2), NOWHERE, np.int32),
        pools=np.full((lanes, deployments), np.array((0.0, NOWHERE, NOWHERE, -np.inf), dtype=POOL)),
        sessions=np.full(slots, np.array((NOWHERE, NOWHERE, NOWHERE), dtype=SESSION)),
        active=np.zeros((lanes, units), dtype=np.int64),
        active_total=np.zeros(lanes, dtype=np.int64),
        window=bounds[:-1].copy(),
        served=np.zeros((lanes, units), dtype=np.int64),
        served_total=np.zeros(lanes, dtype=np.int64),
        has_room=np.zeros((lanes, units), dtype=np.bool_),
        path=np.full(
            (lanes if static.one_session and static.by_turns else 1, longest),
            NOWHERE,
            dtype=np.int32,
        ),
    )


def empty_ledger(rows: int) -> NDArray[np.void]:
    """Structured array (rows,) of OUTCOME in which nothing has been served."""
    ledger = np.zeros(rows, dtype=OUTCOME)
    ledger["deployment"] = NOWHERE
    return ledger


def quotes_of(static: Static, fleet: Deployments, lanes: int) -> Quotes:
    """Quotes with buffers of their own, to be filled by the kernels."""
    shapes = {"D": len(fleet), "M": len(fleet.models), "R": len(fleet.regions)}
    shapes["U"] = len(fleet.unit_share)

    def table(over: str, dtype: type = np.float64) -> np.ndarray:
        return np.zeros((lanes, shapes[over]), dtype=dtype)

    def column(dtype: type = np.int64) -> np.ndarray:
        return np.zeros(lanes, dtype=dtype)

    buffers = QuoteBuffers(
        row=np.full(lanes, NOWHERE, dtype=np.int64),
        slot=column(),
        session_key=column(np.uint64),
        turn=column(),
        time_s=column(np.float64),
        prompt_tokens=column(),
        history_tokens=column(),
        predicted_output_tokens=column(np.float64),
        previous=column(),
        idle_s=column(np.float64),
        intensity=table("R"),
        facility_intensity=table("R"),
        intensity_hour_ago=table("R"),
        quality=table("M"),
        model_admissible=table("M", np.bool_),
        unit_available=table("U", np.bool_),
        unit_load=table("U", np.int64),
        unit_places=table("U", np.int64),
        cached_tokens=table("D", np.int32),
        energy_kwh=table("D"),
        co2_g=table("D"),
        ttft_s=table("D"),
        available=table("D", np.bool_),
        admissible=table("D", np.bool_),
        feasible=table("D", np.bool_),
    )
    blind = PriceBuffers(table("D"), table("D"), table("D"), table("D", np.bool_))
    return Quotes(
        fleet=fleet,
        **buffers._asdict(),
        _static=static,
        _buffers=buffers,
        _blind=blind,
        _choice=column(),
        _how=column(),
    )
