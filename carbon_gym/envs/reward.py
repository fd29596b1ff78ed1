"""The terms of the reward."""

from __future__ import annotations

from carbon_gym.envs.arrays import Kit
from carbon_gym.simulator.accounting import account_of
from carbon_gym.simulator.jit import inlined
from carbon_gym.simulator.pricing import best_fitting


@inlined
def write_terms(kit: Kit, b: int, d: int, at: int) -> None:
    """Terms of the reward for serving the current turn of lane `b` on `d`, before it moves on.

    A violation never pays: `refund` takes back the CO2 by which it undercuts the reference, the
    cheapest feasible deployment, and under a budget the priced quality by which it is better. If
    nothing is feasible the forced deployment is the reference, and its lateness counts likewise.
    """
    s, state, rules = kit.static, kit.state, kit.rules
    entry, step = kit.ledger[at], kit.lanes.step[b]
    turn = kit.turns.turn[state.row[b]]
    said = kit.turns.quality_predicted[state.row[b]]
    model = s.model[d]
    co2 = -entry["co2_g"] / rules.co2_scale_g
    late = -rules.ttft_weight * max(0.0, entry["ttft_s"] / s.ttft_bound_s - 1.0)
    quality = 0.0
    if rules.budget:
        quality = rules.quality_weight * (said[model] - rules.quality_target)
    refund, reached = 0.0, said[model]
    if entry["quality_violation"]:
        needed = turn["history_tokens"] + turn["prompt_tokens"] + turn["predicted_output_tokens"]
        best = best_fitting(s, said, needed)
        if s.context_tokens[model] >= min(s.largest_context_tokens, needed):
            shortfall = max(0.0, s.beta_q * best - reached)
        else:  # it cannot answer: its quality counts as 0, and that is short of any filter
            reached = 0.0
            shortfall = s.beta_q * best if s.beta_q > 0.0 else best
        if rules.budget:
            quality = rules.quality_weight * (reached - rules.quality_target)
        quality -= rules.quality_weight * shortfall
    forced = kit.lanes.forced[b]
    if d != forced and (entry["quality_violation"] or entry["ttft_violation"]):
        _, _, forced_co2_g, forced_ttft_s = account_of(s, kit.turns, state, b, forced)
        undercut = co2 + forced_co2_g / rules.co2_scale_g
        if rules.budget:
            # The shortfall, charged above, stays charged.
            undercut += rules.quality_weight * (reached - said[s.model[forced]])
        forced_late = -rules.ttft_weight * max(0.0, forced_ttft_s / s.ttft_bound_s - 1.0)
        refund = -max(0.0, undercut) - max(0.0, late - forced_late)
    step["reward_co2"] = co2
    step["reward_refund"] = refund
    step["reward_quality"] = quality
    step["reward_ttft"] = late
    step["recomputed_tokens"] = 0
    if turn["turn"] > 0:
        step["recomputed_tokens"] = turn["history_tokens"] - entry["cached_tokens"]
    violation = entry["quality_violation"] or entry["ttft_violation"] or entry["capacity_violation"]
    step["feasible"] = not violation
