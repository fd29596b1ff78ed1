"""`CarbonRouting-v0`: an episode is one conversation."""

from __future__ import annotations

from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from carbon_gym.envs.desk import Desk
from carbon_gym.envs.lane import LaneEnv, Observed
from carbon_gym.envs.layout import ObservationLayout
from carbon_gym.envs.options import Arguments, Options, resolve
from carbon_gym.envs.record import ConversationRecord, Record


class CarbonRoutingEnv(LaneEnv):
    """Serve one conversation, turn by turn, where it emits least.

    ## Description
    A conversation with a language model leaves its history in the KV cache of each deployment (a
    model on a GPU type in a region) that served it. Each of its turns is a step: the agent picks
    the deployment, and pays for the energy of the turn, the recomputation of history that is not
    cached there included, at the carbon intensity of the region at that moment. Sessions, grids
    and the reference run come from a scenario and one of its splits. Other traffic is background:
    how full every pool is at each turn, and how long an idle cache survives memory pressure, as a
    run of whole fleets by the background's policy left it. What the agent does does not change it.

    ## Action Space
    ``Discrete(D)``: the index of a deployment, models outermost, regions innermost;
    ``layout.names`` has their names, `carbon_gym.wrappers.FactoredAction` turns it into
    ``MultiDiscrete`` (model, GPU, region). ``info["action_mask"]`` and ``action_masks()`` say
    which actions the mask allows; never none:

    | mask | allows |
    |---|---|
    | "feasible" | the set F; if it is empty, exactly the forced deployment |
    | "room" | deployments of pools with room; if there are none, the forced deployment |
    | None | everything |

    F holds the deployments whose pool has room, whose model is admissible and whose TTFT is at
    most τ. The forced deployment is the cheapest of F; if only τ empties F, the shortest TTFT of
    the rest; if no pool with room has an admissible model, the shortest TTFT of the admissible
    ones anywhere. An action outside the mask is executed as chosen and marked ``masked``; in a
    pool without room it is executed on the forced deployment and marked ``refused``.

    ## Observation Space
    A float32 ``Box``, everything in [0, 1] or [-1, 1] on fixed scales; no running statistics. With
    R regions, M models, U pools, D deployments:

    | slice | length | min | max | meaning |
    |---|---|---|---|---|
    | prompt | 1 | 0 | 1 | q / (q + 512 tokens) |
    | history | 1 | 0 | 1 | H / (H + 4,096 tokens) |
    | predicted_output | 1 | 0 | 1 | ô / (ô + 512 tokens) |
    | turn | 1 | 0 | 1 | i / (i + 8), i = 0 on the first turn |
    | idle | 1 | 0 | 1 | s / (s + TTL), s since the session's last turn; 1 on the first |
    | stake | 1 | 0 | 1 | r / (r + s): CO2 of the reference (see co2), mean of faircarbon |
    | hour | 2 | -1 | 1 | time of day, UTC |
    | weekday | 2 | -1 | 1 | time of the week, UTC |
    | month | 2 | -1 | 1 | time of the year, UTC |
    | intensity | R | 0 | 1 | CI / (CI + 300 g/kWh), as the router sees it |
    | change_1h | R | -1 | 1 | (CI − CI an hour ago) / (their sum) |
    | change_24h | R | -1 | 1 | the same against a day ago |
    | rank | R | 0 | 1 | share of the other regions that are cleaner |
    | quality | M | 0 | 1 | predicted quality q̂ |
    | quality_ratio | M | 0 | 1 | q̂ / best q̂ of those whose context fits, at most 1 |
    | admissible | M | 0 | 1 | 1 if the model is admissible |
    | room | U | 0 | 1 | 1 if the pool takes this turn |
    | load | U | 0 | 1 | others' load / places, at most 1; share of all where no limit |
    | cached | D | 0 | 1 | C / H; 0 without history |
    | age | D | 0 | 1 | age of a usable cache / TTL; 1 without one |
    | margin | D | 0 | 1 | how far TTL and memory pressure are from it, / TTL |
    | co2 | D | -1 | 1 | (CO2 − reference) / (CO2 + reference), both estimated |
    | ttft | D | -1 | 1 | (TTFT − τ) / (TTFT + τ) |
    | feasible | D | 0 | 1 | 1 if it is in F |
    | current | D | 0 | 1 | 1 if it served the session's last turn |

    ``env.unwrapped.layout`` names the slices (``layout.slices["intensity"]``), gives the block of
    the deployments as a (D, 7) matrix (``layout.deployments(observation)``) and holds what never
    changes (``layout.constants``). The reference of ``co2`` is the cheapest deployment of F, or
    the forced one if F is empty; where neither emits anything the feature is 0. With
    ``observation="dict"`` the same vector is given as views: "turn" (11,), "grid" (4·R,),
    "quality" (3·M,), "units" (2·U,), "deployments" (7·D,). At the end of the conversation there is
    no next turn: the observation is the last turn's, its deployment block zero.

    ## Rewards
    The sum of five terms, each in ``info``:

    | term | value |
    |---|---|
    | reward_co2 | −co2_g / co2_scale_g |
    | reward_quality | −λ_q · max(0, β_Q · best q̂ − q̂) |
    | reward_ttft | −λ_t · max(0, TTFT / τ − 1) |
    | reward_capacity | −λ_c if the action was refused |
    | reward_refund | what a violation of quality or TTFT saves, taken back |

    A violation saves the CO2 by which it undercuts the forced deployment, which is the cheapest of
    F; without the refund it could pay. With ``quality_constraint="budget"`` the quality term is
    λ_q · (q̂ − target), below the floor less the shortfall too, and the refund takes back priced
    quality likewise. ``weights`` sets λ_q, λ_t = 1, λ_c = 1. λ_q is 5; under a budget it is what
    validation found a unit of quality to be worth, so that the largest expected reward of a turn
    is the choice of `ccar-budget-fixed`. ``co2_scale_g`` is the mean CO2 per turn of the reference
    run on the training split, a constant of the scenario: the reference policy's CO2 costs it 1 a
    turn in the mean. The tail is heavy and never clipped (docs/environment.md
    has its quantiles). A model whose context is too short counts with quality 0; if nothing is
    feasible, lateness is measured against the forced deployment's in the refund.

    ## Starting State
    The first turn of a conversation drawn uniformly from the split, with nothing cached.
    ``reset(options={"session": index})`` names it, 0..``world.sessions``−1. Draws are keyed by the
    seed and counted: ``reset(seed=s)`` begins them anew, ``reset()`` goes on.

    ## Episode End
    ``terminated`` with the last turn. ``truncated`` after ``max_turns`` turns, if that is fewer.

    ## Information
    After a step; after ``reset`` only "action_mask" and "session".

    | key | type | meaning |
    |---|---|---|
    | co2_g | float | gCO2eq emitted by the turn |
    | energy_kwh | float | kWh |
    | ttft_s | float | time to first token, s |
    | quality_predicted | float | q̂ of the model that served, in [0, 1] |
    | quality_realised | float | q of the model that served, in [0, 1] |
    | cached_tokens | int | tokens of the history found in the cache |
    | recompute_kwh | float | kWh spent on history that was not cached |
    | quality_violation | bool | the model was not admissible |
    | ttft_violation | bool | TTFT above τ |
    | capacity_violation | bool | served in a pool without room |
    | switched | bool | the session's last turn was served elsewhere |
    | reward_co2 | float | term of the reward: −co2_g / co2_scale_g |
    | reward_refund | float | term: what a violation saved, taken back |
    | reward_quality | float | term: quality |
    | reward_ttft | float | term: lateness |
    | reward_capacity | float | term: the action's pool had no room |
    | recomputed_tokens | int | tokens of the history prefilled again |
    | feasible | bool | no violation |
    | masked | bool | the action was outside the mask |
    | refused | bool | no room in its pool: executed on the forced one |
    | deployment_index | int | where the turn was served, 0..D−1 |
    | deployment | str | ``model @ GPU @ region``; scalar environments only |
    | session | int | conversation of the observation returned |
    | action_mask | int8 (D,) | 1: allowed, of the observation returned |

    ## Arguments
    All are JSON-plain.

    Args:
        scenario: A packaged scenario's name, a YAML file, or a `carbon_gym.Scenario`; "sharegpt".
        split: "train", "validation" or "test"; None: all of a conversation file. Default: "train".
        fleets: Days laid as fleets, of whose sessions episodes are drawn; 16.
        background: who serves the other traffic: "reference" (default: every turn to its cheapest
            feasible quote; under a budget `ccar-budget-fixed`), a policy's name or
            ``module:Class``.
        observation: "flat" (default) or "dict".
        mask: "feasible" (default), "room" or None.
        quality_constraint: "filter" or "budget"; None (default): the scenario's.
        quality_target: Mean predicted quality to reach under a budget; None (default): the
            scenario's.
        weights: ``{"quality": λ_q, "ttft": λ_t, "capacity": λ_c}``, any of them. Under a budget
            λ_q is by default the price of quality that validation found.
        co2_scale_g: g per unit of reward; None (default): the scenario's.
        max_turns: Steps after which an episode is truncated; None (default): no limit.
        render_mode: "ansi", "rgb_array", "human" or None (default).

    Raises:
        InputError: An argument that cannot be used, in one sentence.

    Example:
        >>> import carbon_gym, gymnasium
        >>> env = gymnasium.make("CarbonRouting-v0", scenario="tiny")
        >>> observation, info = env.reset(seed=0)
        >>> action = env.unwrapped.quotes.cheapest()[0]
        >>> observation, reward, terminated, truncated, info = env.step(action)

    ## References
    *Context Is Not Free* (arXiv 2610.35230). The formulas: docs/model.md.

    ## Version History
    * v0: first version.
    """

    def __init__(self, **arguments: Unpack[Arguments]) -> None:
        super().__init__(resolve(**arguments))
        self._made = desk_of(self.options, self.layout, lanes=1)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observed, dict[str, Any]]:
        """Begin a conversation.

        Args:
            seed: Keys the draws of conversations from here on; None: they go on.
            options: ``{"session": index}`` names the conversation, 0..sessions−1; else it is drawn.

        Returns:
            The first turn's observation, and info with "action_mask" and "session".
        """
        super().reset(seed=seed)
        desk = self._made
        first = self._desk is None and not desk.out.stream[0]
        if seed is not None or first:
            desk.seed([self.np_random_seed if seed is None else seed])
        desk.begin(asked_sessions(options, desk.lanes, self.world.sessions))
        self._desk = desk
        session = int(desk.out.session[0])
        if self.render_mode is not None:
            self._watch_reset()
        return self._observed(desk), {
            "action_mask": desk.out.mask[0].copy(),
            "session": session,
        }

    def _record(self, desk: Desk) -> Record:
        return ConversationRecord(self.world, desk)


def desk_of(
    options: Options,
    layout: ObservationLayout,
    lanes: int,
    same_step: bool = False,
    threads: int = 1,
) -> Desk:
    """A desk whose lanes are conversations of the world."""
    world = options.world
    return Desk(
        world.static(one_session=True),
        world.session_turns,
        world.session_context,
        world.first,
        options.rules,
        world.fleet,
        lanes=lanes,
        slots=lanes,
        size=layout.size,
        same_step=same_step,
        threads=threads,
    )


def asked_sessions(
    options: dict[str, Any] | None, lanes: int, sessions: int
) -> NDArray[np.int64] | None:
    """The sessions that `reset(options=...)` names, int64 (lanes,), or None.

    Raises:
        ValueError: An unknown key, or no such session.
    """
    if not options:
        return None
    unknown = set(options) - {"session", "reset_mask"}
    if unknown:
        raise ValueError(f"options: {sorted(unknown)[0]!r} is not known; use 'session'")
    if options.get("session") is None:
        return None
    given = np.asarray(options["session"])
    if given.dtype.kind not in "iu" or given.size not in (1, lanes):
        raise ValueError(
            f"options: session = {options['session']!r} is not allowed; give an index"
            + (f", or {lanes} of them" if lanes > 1 else "")
        )
    if given.min() < 0 or given.max() >= sessions:
        wrong = given[(given < 0) | (given >= sessions)].flat[0] if given.ndim else given
        raise ValueError(
            f"options: session {wrong} does not exist; choose from 0 to {sessions - 1}"
        )
    return np.broadcast_to(given.reshape(-1), (lanes,)).astype(np.int64)
