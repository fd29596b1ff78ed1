"""A scorer serving whole fleets to their end in one call: what a search over weights measures.

The decisions are those of `carbon_gym.router.policy.RouterPolicy`, many times as fast: nothing
returns to Python. The layers stand in `carbon_gym.router.kernels`, and are inlined here.
"""

from __future__ import annotations

from dataclasses import fields
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from carbon_gym.envs.arrays import Kit
from carbon_gym.envs.fleet_view import FleetView
from carbon_gym.envs.kernels import restore_kit
from carbon_gym.envs.observe import observe
from carbon_gym.quality.queue import advance
from carbon_gym.router.amplify import amplify, qualities_of
from carbon_gym.router.kernels import Memory, Net, best_allowed, read_turn
from carbon_gym.router.plan import TURN_INPUTS, plan_of
from carbon_gym.router.weights import Weights, shapes
from carbon_gym.simulator.accounting import account, move_on
from carbon_gym.simulator.arrays import Floats, FloatTable, Ints
from carbon_gym.simulator.jit import inlined, kernel


class TurnLayer(NamedTuple):
    """The layer of the turn, float64; T and H as in `Weights`."""

    first: int  # of the turn's features in an observation
    last: int
    turn: FloatTable  # (TURN_INPUTS, T)
    turn_bias: Floats  # (T,)
    layers: FloatTable  # (T, 2·H) added and output
    biases: Floats  # (2·H,)


class Room(NamedTuple):
    """Scratch of one call."""

    context: Floats  # (TURN_INPUTS,)
    turn: Floats  # (T,)
    both: Floats  # (2·H,)
    memory: Memory


class Budget(NamedTuple):
    """What `carbon_gym.quality.queue` keeps by lane, float64 (B,), and what it aims at."""

    begin: int  # of the qualities in an observation
    models: int
    target: float
    eta: float
    short: Floats
    drift: Floats
    factor: Floats


def serve_fleets(
    view: FleetView, weights: Weights, quality_target: float = 0.0, eta: float = 0.0
) -> None:
    """Serve all fleets of a view to their end; the outcome is in its simulator's ledger.

    Args:
        view: Of a simulator that was just made or reset.
        weights: The scorer's.
        quality_target: As of `carbon_gym.router.policy.RouterPolicy`.
        eta: Likewise.
    """
    plan = plan_of(view.layout)

    def of(*names: str) -> NDArray[np.float64]:
        return np.concatenate([getattr(weights, name) for name in names], axis=-1).astype(float)

    fixed = plan.constants.astype(float) @ of("constants") + of("added_bias")
    net = Net(plan.blocks, plan.groups, of("own"), of("group"), fixed, of("prior"))
    biases = np.concatenate([np.zeros(fixed.shape[1]), of("output_bias")])
    layer = TurnLayer(
        plan.turn.start,
        plan.turn.stop,
        of("turn"),
        of("turn_bias"),
        of("added", "output"),
        biases,
    )
    groups, width = int(plan.blocks[:3, 2].sum()), fixed.shape[1]
    memory = Memory(np.empty((groups, width)), np.empty(groups), np.empty(len(fixed) + 1, np.int64))
    room = Room(np.empty(TURN_INPUTS), np.empty(len(layer.turn_bias)), np.empty(2 * width), memory)
    lanes = view.simulator.lanes
    arrays = np.zeros(lanes), np.zeros(lanes), np.ones(lanes)
    budget = Budget(*qualities_of(plan), float(quality_target), float(eta), *arrays)
    _serve(view.words, net, layer, budget, room)


def flat(weights: Weights) -> Floats:
    """All weights in one vector, float64 (n,), in the order of the fields of `Weights`."""
    return np.concatenate([getattr(weights, f.name).ravel() for f in fields(Weights)]).astype(float)


def unflat(vector: Floats, width: int, turn: int) -> Weights:
    """The weights of a vector that `flat` made, of these widths H and T."""
    found, at = {}, 0
    for name, shape in shapes(width, turn).items():
        size = int(np.prod(shape))
        part = vector[at : at + size].reshape(shape).astype(np.float32)
        found[name] = np.ascontiguousarray(part)
        at += size
    return Weights(**found)


@inlined
def _choose(kit: Kit, net: Net, layer: TurnLayer, b: int, q: Room) -> int:
    """What the scorer chooses for the observed turn of lane b."""
    x, context, turn, both = kit.lanes.observation[b], q.context, q.turn, q.both
    read_turn(layer.first, layer.last, net.blocks, x, context)
    for j in range(turn.shape[0]):
        turn[j] = layer.turn_bias[j]
    for i in range(context.shape[0]):
        row, value = layer.turn[i], context[i]
        for j in range(turn.shape[0]):
            turn[j] += value * row[j]
    for j in range(both.shape[0]):
        both[j] = layer.biases[j]
    for i in range(turn.shape[0]):
        row, value = layer.layers[i], turn[i] if turn[i] > 0.0 else 0.0
        for j in range(both.shape[0]):
            both[j] += value * row[j]
    width = net.fixed.shape[1]
    found: int = best_allowed(net, x, kit.lanes.mask[b], both[:width], both[width:], q.memory)
    return found


@kernel
def _serve(words: Ints, net: Net, layer: TurnLayer, budget: Budget, q: Room) -> None:
    kit = restore_kit(words)
    state, said = kit.state, kit.turns.quality_predicted
    for b in range(state.row.shape[0]):
        while state.row[b] < state.stop[b]:
            observe(kit, 0, b, False)
            if budget.eta > 0.0:
                x = kit.lanes.observation[b]
                amplify(x, budget.begin, budget.models, budget.factor[b])
            d = _choose(kit, net, layer, b, q)
            missing = budget.target - said[state.row[b], kit.static.model[d]]
            advance(budget.eta, missing, b, budget.short, budget.drift, budget.factor)
            account(kit.static, kit.turns, state, kit.ledger, state.row[b], b, d)
            move_on(kit.static, kit.turns, state, b, d)
