"""Keyed random draws: the same key always gives the same number, in any order, anywhere.

Every per-turn draw of carbon_gym (lengths, gaps, difficulty, predictor errors, splits) goes
through this one counter-based generator (SPEC §10). A draw is a pure function of
``(seed, stream, session key, turn, component)``; no generator state is kept, so that adding a
session, changing a later turn or evaluating in parallel never changes another draw.

The mixing function is SplitMix64's finalizer (Steele, Lea and Flood, OOPSLA 2014), applied once
per key component.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import ArrayLike, NDArray

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_A = np.uint64(0xBF58476D1CE4E5B9)
_MIX_B = np.uint64(0x94D049BB133111EB)


def mix(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """SplitMix64's finalizer of 64-bit words; the environments' kernels compile it as well."""
    bits = (bits ^ (bits >> np.uint64(30))) * _MIX_A
    bits = (bits ^ (bits >> np.uint64(27))) * _MIX_B
    return bits ^ (bits >> np.uint64(31))


def key_of_text(text: str) -> int:
    """64-bit key of a name or session id (BLAKE2b), stable across runs and machines."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def bits(
    seed: int,
    stream: str,
    session_key: ArrayLike,
    turn: ArrayLike = 0,
    component: ArrayLike = 0,
) -> NDArray[np.uint64]:
    """64 random bits for every (broadcast) key.

    Args:
        seed: The scenario's seed for this purpose.
        stream: Name of the quantity drawn, e.g. ``"gap"``; different streams are independent.
        session_key: uint64, any shape.
        turn: Integer turn index within the session, any broadcastable shape.
        component: Integer, e.g. the model index, where one turn needs several draws.

    Returns:
        uint64 array of the broadcast shape.
    """
    with np.errstate(over="ignore"):
        start = mix(np.asarray(np.uint64(seed % 2**64) ^ np.uint64(key_of_text(stream))) + GOLDEN)
        state = mix((start ^ np.asarray(session_key).astype(np.uint64)) + GOLDEN)
        state = mix((state ^ np.asarray(turn).astype(np.uint64)) + GOLDEN)
        return mix((state ^ np.asarray(component).astype(np.uint64)) + GOLDEN)


def uniform(
    seed: int,
    stream: str,
    session_key: ArrayLike,
    turn: ArrayLike = 0,
    component: ArrayLike = 0,
) -> NDArray[np.float64]:
    """Uniform float64 draws in the open interval (0, 1); see `bits` for the arguments."""
    raw = bits(seed, stream, session_key, turn, component) >> np.uint64(11)
    return (raw.astype(np.float64) + 0.5) * 2.0**-53


def normal(
    seed: int,
    stream: str,
    session_key: ArrayLike,
    turn: ArrayLike = 0,
    component: ArrayLike = 0,
) -> NDArray[np.float64]:
    """Standard normal float64 draws (Box-Muller on two sub-streams); see `bits`."""
    radius = np.sqrt(-2.0 * np.log(uniform(seed, stream + "/radius", session_key, turn, component)))
    angle = 2.0 * np.pi * uniform(seed, stream + "/angle", session_key, turn, component)
    return np.asarray(radius * np.cos(angle), dtype=np.float64)
