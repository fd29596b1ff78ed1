"""The `info` of a step: every key, its unit, and how it is read from the lanes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from carbon_gym.envs.arrays import Lanes
from carbon_gym.envs.desk import Desk


class Key(NamedTuple):
    """One key of `info` after a step."""

    name: str
    dtype: type
    meaning: str


OUTCOME_KEYS = (
    Key("co2_g", float, "gCO2eq emitted by the turn"),
    Key("energy_kwh", float, "kWh"),
    Key("ttft_s", float, "time to first token, s"),
    Key("quality_predicted", float, "q̂ of the model that served, in [0, 1]"),
    Key("quality_realised", float, "q of the model that served, in [0, 1]"),
    Key("cached_tokens", int, "tokens of the history found in the cache"),
    Key("recompute_kwh", float, "kWh spent on history that was not cached"),
    Key("quality_violation", bool, "the model was not admissible"),
    Key("ttft_violation", bool, "TTFT above τ"),
    Key("capacity_violation", bool, "served in a pool without room"),
    Key("switched", bool, "the session's last turn was served elsewhere"),
)
STEP_KEYS = (
    Key("reward_co2", float, "term of the reward: −co2_g / co2_scale_g"),
    Key("reward_refund", float, "term: what a violation saved, taken back"),
    Key("reward_quality", float, "term: quality"),
    Key("reward_ttft", float, "term: lateness"),
    Key("reward_capacity", float, "term: the action's pool had no room"),
    Key("recomputed_tokens", int, "tokens of the history prefilled again"),
    Key("feasible", bool, "no violation"),
    Key("masked", bool, "the action was outside the mask"),
    Key("refused", bool, "no room in its pool: executed on the forced one"),
)
INDEX_KEY = Key("deployment_index", int, "where the turn was served, 0..D−1")
NAME_KEY = Key("deployment", str, "``model @ GPU @ region``; scalar environments only")
MASK_KEY = Key("action_mask", np.int8, "1: allowed, of the observation returned")
SESSION_KEY = Key("session", int, "conversation of the observation returned")

_OUTCOME = tuple(key.name for key in OUTCOME_KEYS)
_STEP = tuple(key.name for key in STEP_KEYS)


def scalar_info(desk: Desk, at: int, names: tuple[str, ...]) -> dict[str, Any]:
    """`info` after a step of lane 0, whose turn stands in row `at` of the ledger.

    Everything is a Python number, bool or string, but the mask: an array of its own.
    """
    # One conversion for all fields: a record becomes a tuple of Python numbers.
    kwh, co2_g, ttft_s, recompute, q_said, q_real, d, cached, bad_q, late, full, switched = (
        desk.ledger[at : at + 1].tolist()[0]
    )
    co2, refund, quality, ttft, capacity, recomputed, feasible, masked, refused = (
        desk.out.step.tolist()[0]
    )
    return {
        "co2_g": co2_g,
        "energy_kwh": kwh,
        "ttft_s": ttft_s,
        "quality_predicted": q_said,
        "quality_realised": q_real,
        "cached_tokens": cached,
        "recompute_kwh": recompute,
        "quality_violation": bad_q,
        "ttft_violation": late,
        "capacity_violation": full,
        "switched": switched,
        "reward_co2": co2,
        "reward_refund": refund,
        "reward_quality": quality,
        "reward_ttft": ttft,
        "reward_capacity": capacity,
        "recomputed_tokens": recomputed,
        "feasible": feasible,
        "masked": masked,
        "refused": refused,
        "deployment_index": d,
        "deployment": names[d],
        "session": desk.out.session.item(0),
        "action_mask": desk.mask.copy(),
    }


def vector_info(desk: Desk, copy: bool) -> dict[str, Any]:
    """`info` after a step of all lanes: arrays (B,), and the same for "action_mask" (B, D).

    By Gymnasium's convention ``_key`` says for which lanes a key holds: for the outcome of a turn,
    those that served one.
    """
    if copy:
        return _views(desk.ledger.copy(), desk.out.step.copy(), desk.out, copied)
    if desk.info is None:
        desk.info = _views(desk.ledger, desk.out.step, desk.out, lambda array: array)
    return dict(desk.info)


def _views(
    ledger: NDArray[np.void],
    step: NDArray[np.void],
    out: Lanes,
    kept: Callable[[NDArray[Any]], NDArray[Any]],
) -> dict[str, Any]:
    """All keys, as views of the records; the rest as `kept`."""
    acted = kept(out.acted)
    info: dict[str, Any] = {}
    for source, keys in ((ledger, _OUTCOME), (step, _STEP)):
        for key in keys:
            info[key] = source[key]
            info["_" + key] = acted
    info["deployment_index"] = ledger["deployment"]
    info["_deployment_index"] = acted
    always = np.ones(len(acted), dtype=np.bool_)
    info["session"] = kept(out.session)
    info["_session"] = always
    info["action_mask"] = kept(out.mask)
    info["_action_mask"] = always
    return info


def copied(array: NDArray[Any]) -> NDArray[Any]:
    """A copy."""
    return array.copy()
