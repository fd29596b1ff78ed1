"""The first policies (SPEC §5, §6), each a function (simulator, row, quote) -> deployment."""

from __future__ import annotations

from collections.abc import Sequence

from .records import Deployment, Quote
from .simulator import Policy, ReferenceSimulator


def cheapest(
    candidates: Sequence[int],
    co2_g: Sequence[float],
    ttft_s: Sequence[float],
    fleet: Sequence[Deployment],
) -> int:
    """Lowest CO2, ties by TTFT, then by name (SPEC §3)."""
    return min(candidates, key=lambda d: (co2_g[d], ttft_s[d], fleet[d].name))


def fastest(
    candidates: Sequence[int],
    co2_g: Sequence[float],
    ttft_s: Sequence[float],
    fleet: Sequence[Deployment],
) -> int:
    """Shortest TTFT, ties by CO2, then by name (SPEC §10, best effort)."""
    return min(candidates, key=lambda d: (ttft_s[d], co2_g[d], fleet[d].name))


def best_effort(
    quote: Quote,
    co2_g: Sequence[float],
    ttft_s: Sequence[float],
    fleet: Sequence[Deployment],
) -> int:
    """What is chosen where nothing is feasible (SPEC §5).

    The shortest TTFT among the admissible deployments with room; where there is none, among the
    admissible ones anywhere.
    """
    admissible = [d for d in range(len(fleet)) if quote.admissible[d]]
    with_room = [d for d in admissible if quote.available[d]]
    return fastest(with_room if with_room else admissible, co2_g, ttft_s, fleet)


def ccar_no_gate(simulator: ReferenceSimulator, i: int, quote: Quote) -> int:
    """Cheapest feasible deployment, priced with its cache (SPEC §5)."""
    fleet = simulator.deployments
    feasible = [d for d in range(len(fleet)) if quote.feasible[d]]
    if feasible:
        return cheapest(feasible, quote.co2_g, quote.ttft_s, fleet)
    return best_effort(quote, quote.co2_g, quote.ttft_s, fleet)


def ccar_no_pricing(simulator: ReferenceSimulator, i: int, quote: Quote) -> int:
    """The same with cost and TTFT estimated at C = 0 everywhere (SPEC §5, `pricing=False`)."""
    fleet = simulator.deployments
    feasible = [d for d in range(len(fleet)) if quote.blind_feasible[d]]
    if feasible:
        return cheapest(feasible, quote.blind_co2_g, quote.blind_ttft_s, fleet)
    return best_effort(quote, quote.blind_co2_g, quote.blind_ttft_s, fleet)


def faircarbon(simulator: ReferenceSimulator, i: int, quote: Quote) -> int:
    """argmin PUE_r · CI_r · e_in · (H + q + ρ_o·ô) over F computed with C = 0 (SPEC §6).

    Written from its own formula, from the quote only room and admissibility are taken.
    """
    fleet = simulator.deployments
    history = simulator.H[i]
    prompt = simulator.q[i]
    reply = simulator.o_hat[i]
    output_ratio = simulator.scenario.energy.output_ratio
    cost_g: list[float] = []
    wait_s: list[float] = []
    for d in range(len(fleet)):
        intensity = simulator.pue[d] * simulator.router_intensity(i, d)
        energy = simulator.input_kwh_per_token[d] * (history + prompt + output_ratio * reply)
        cost_g.append(intensity * energy)
        prefill_s = (history + prompt) / simulator.prefill_tokens_per_s[d]
        wait_s.append(prefill_s + simulator.round_trip_s[d])
    allowed: list[int] = []
    for d in range(len(fleet)):
        in_time = wait_s[d] <= simulator.scenario.bounds.ttft_s
        if quote.available[d] and quote.admissible[d] and in_time:
            allowed.append(d)
    if allowed:
        return cheapest(allowed, cost_g, wait_s, fleet)
    return best_effort(quote, cost_g, wait_s, fleet)


def session_affinity(simulator: ReferenceSimulator, i: int, quote: Quote) -> int:
    """Stay where the previous turn went while feasible, else in its region, else anywhere."""
    fleet = simulator.deployments
    previous = quote.previous
    if previous is not None:
        if quote.feasible[previous]:
            return previous
        same_region = [
            d
            for d in range(len(fleet))
            if quote.feasible[d] and fleet[d].region == fleet[previous].region
        ]
        if same_region:
            return cheapest(same_region, quote.co2_g, quote.ttft_s, fleet)
    return ccar_no_gate(simulator, i, quote)


def largest_model(simulator: ReferenceSimulator, i: int, quote: Quote) -> int:
    """The largest model on its cheapest cache-blind deployment with room (SPEC §6, §10)."""
    fleet = simulator.deployments
    models = simulator.scenario.fleet.models
    most = max(model.params_billion for model in models)
    name = min(model.name for model in models if model.params_billion == most)
    of_model = [d for d in range(len(fleet)) if fleet[d].model == name]
    with_room = [d for d in of_model if quote.available[d]]
    if with_room:
        return cheapest(with_room, quote.blind_co2_g, quote.blind_ttft_s, fleet)
    return fastest(of_model, quote.blind_co2_g, quote.blind_ttft_s, fleet)


def lower_bound(simulator: ReferenceSimulator, i: int, quote: Quote) -> int:
    """Cheapest admissible deployment, room and TTFT ignored; use with `full_cache=True`."""
    fleet = simulator.deployments
    admissible = [d for d in range(len(fleet)) if quote.admissible[d]]
    return cheapest(admissible, quote.co2_g, quote.ttft_s, fleet)


POLICIES: dict[str, Policy] = {
    "session-affinity": session_affinity,
    "faircarbon": faircarbon,
    "ccar-no-gate": ccar_no_gate,
    "ccar-no-pricing": ccar_no_pricing,
    "largest-model": largest_model,
    "lower-bound": lower_bound,
}
