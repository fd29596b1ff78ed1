"""The formulas of a turn on a deployment (SPEC §1, §2, §4), written once.

Inlined into every kernel that prices: quotes, the account, and the clairvoyant's search. How they
are compiled, and what that forbids: `carbon_gym.simulator.jit`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from carbon_gym.simulator.arrays import Bools, BoolTable, Floats, FloatTable, Static
from carbon_gym.simulator.jit import inlined, kernel


@inlined
def fresh_tokens(history: float, cached: float, prompt: float) -> float:
    """Tokens to prefill, H − C + q."""
    return history - cached + prompt


@inlined
def energy_of(s: Static, d: int, cached: float, fresh: float, output: float) -> float:
    """e_in·(ρ_c·C + (H − C) + q + ρ_o·o), kWh (SPEC §2)."""
    energy_kwh: float = s.energy_kwh_per_token[d] * (
        s.cached_input_ratio[d] * cached + fresh + s.output_ratio[d] * output
    )
    return energy_kwh


@inlined
def ttft_of(s: Static, d: int, fresh: float) -> float:
    """(H − C + q) / prefill rate, plus the region's round trip, s (SPEC §2)."""
    ttft_s: float = fresh * s.prefill_s_per_token[d] + s.round_trip_s[d]
    return ttft_s


@inlined
def intensity_with_pue(s: Static, published: Floats, r: int) -> float:
    """PUE_r · CI_r, gCO2eq/kWh (SPEC §2)."""
    intensity: float = s.pue[r] * published[r]
    return intensity


@inlined
def idle_of(now_s: float, last_use_s: float, evicted_until_s: float) -> float:
    """Age of a cache, s; inf where nothing is held or others have taken its place."""
    return now_s - last_use_s if last_use_s > evicted_until_s else np.inf


@inlined
def usable_tokens(s: Static, held: float, idle_s: float, history: float) -> float:
    """C = min(held, H) while the cache is alive, else 0 (SPEC §3, §10)."""
    tokens = min(float(held), float(history))
    return tokens if idle_s <= s.cache_ttl_s else 0.0


@inlined
def best_fitting(s: Static, quality: Floats, needed: float) -> float:
    """Highest predicted quality of the models whose context fits (SPEC §1, §4).

    If none fits, those with the largest context count as fitting.
    """
    fits_from = min(s.largest_context_tokens, needed)
    best = 0.0
    for m in range(s.context_tokens.shape[0]):
        best = max(best, quality[m] if s.context_tokens[m] >= fits_from else 0.0)
    return best


@inlined
def filter_models(s: Static, quality: Floats, needed: float, admissible: Bools) -> None:
    """Admissible models: q̂_m ≥ β_Q · max over the models whose context fits (SPEC §1, §4)."""
    fits_from = min(s.largest_context_tokens, needed)
    best = best_fitting(s, quality, needed)
    for m in range(s.context_tokens.shape[0]):
        admissible[m] = (s.context_tokens[m] >= fits_from) & (quality[m] >= s.beta_q * best)


@kernel
def filter_all(
    s: Static, turn: NDArray[np.void], quality: FloatTable, admissible: BoolTable
) -> None:
    """`filter_models` for every turn: predicted quality and length are known beforehand."""
    for row in range(quality.shape[0]):
        asked = turn[row]["history_tokens"] + turn[row]["prompt_tokens"]
        needed = asked + turn[row]["predicted_output_tokens"]
        filter_models(s, quality[row], needed, admissible[row])
