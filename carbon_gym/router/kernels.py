"""The scorer's forward pass, compiled: without a copy of what it sees.

What the deployments of a region, model or pool share is computed once; of each deployment only its
own seven numbers are left. All sums are float64, as in `agents.scorer`, which says why.

Compiled otherwise than the simulator (`carbon_gym.simulator.jit`): these sums may be reordered and
contracted, which makes them several times as fast. A logit is the same within 1e-12 or so on every
machine, not to the bit. Everything stands in this file, so that numba's cache notices changes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

Function = TypeVar("Function", bound=Callable[..., Any])
Float32s = NDArray[np.float32]
Floats = NDArray[np.float64]


def _compiled(**options: Any) -> Callable[[Function], Function]:
    njit: Any = numba.njit  # its stubs do not know `_nrt`: nothing here allocates
    fast = {"contract", "reassoc", "nsz"}  # not "nnan": a NaN must not become anything at all
    return cast(
        "Callable[[Function], Function]",
        njit(_nrt=False, nogil=True, error_model="numpy", fastmath=fast, **options),
    )


_inlined = _compiled(forceinline=True)
_kernel = _compiled(cache=True)


class Net(NamedTuple):
    """Weights and places on one fleet, of R regions, M models, U pools and D deployments.

    Attributes:
        blocks: int64 (4, 3), as in `Plan`.
        groups: int32 (3, D), region, model and pool of every deployment.
        own: float64 (7, H), weights of a deployment's own numbers.
        group: float64 (12, H), of its region's numbers and whether the session is there, then its
            model's and its pool's.
        fixed: float64 (D, H), what constants and bias add.
        prior: float64 (1,), weight of the price.
    """

    blocks: NDArray[np.int64]
    groups: NDArray[np.int32]
    own: Floats
    group: Floats
    fixed: Floats
    prior: Floats


class Memory(NamedTuple):
    """Scratch of one call.

    Attributes:
        shared: float64 (R + M + U, H), what regions, models and pools add.
        here: float64 (R + M + U,), whether the session is there.
        allowed: int64 (D + 1,), the allowed deployments and one place more.
    """

    shared: Floats
    here: Floats
    allowed: NDArray[np.int64]


@_inlined
def _pool(x: Float32s, begin: int, count: int, context: Floats, at: int, step: int) -> None:
    """Mean, minimum and maximum of consecutive numbers."""
    total, least, most = 0.0, x[begin], x[begin]
    for i in range(begin, begin + count):
        value = x[i]
        total += value
        least = value if value < least else least
        most = value if value > most else most
    context[at] = total / count
    context[at + step] = least
    context[at + 2 * step] = most


@_inlined
def read_turn(
    begin: int, end: int, blocks: NDArray[np.int64], x: Float32s, context: Floats
) -> None:
    """Context of one observation; see `read_turns`."""
    for i in range(end - begin):
        context[i] = x[begin + i]
    at = end - begin
    for kind in range(4):
        first, features, entries = blocks[kind, 0], blocks[kind, 1], blocks[kind, 2]
        for f in range(features):
            _pool(x, first + f * entries, entries, context, at + f, features)
        at += 3 * features


@_kernel
def read_turns(
    begin: int, end: int, blocks: NDArray[np.int64], observations: Float32s, contexts: Floats
) -> None:
    """Contexts (B, TURN_INPUTS) of observations: what is shared, then what is pooled."""
    for b in range(observations.shape[0]):
        read_turn(begin, end, blocks, observations[b], contexts[b])


@_inlined
def _share(net: Net, x: Float32s, added: Floats, q: Memory) -> None:
    """What turn and region, model, and pool add to the layers of their deployments."""
    regions, models, units = net.blocks[0, 2], net.blocks[1, 2], net.blocks[2, 2]
    here, width = q.here, q.shared.shape[1]
    for g in range(here.shape[0]):
        here[g] = 0.0
    current = net.blocks[3, 0] + 6 * net.blocks[3, 2]
    for d in range(net.groups.shape[1]):
        if x[current + d] != 0.0:
            here[net.groups[0, d]] += x[current + d]
            here[regions + net.groups[1, d]] += x[current + d]
            here[regions + models + net.groups[2, d]] += x[current + d]
    w0, w1, w2, w3, w4 = net.group[0], net.group[1], net.group[2], net.group[3], net.group[4]
    at = net.blocks[0, 0]
    for g in range(regions):
        x0, x1, x2 = x[at + g], x[at + regions + g], x[at + 2 * regions + g]
        x3, x4, row = x[at + 3 * regions + g], here[g], q.shared[g]
        for j in range(width):
            row[j] = added[j] + x0 * w0[j] + x1 * w1[j] + x2 * w2[j] + x3 * w3[j] + x4 * w4[j]
    w0, w1, w2, w3 = net.group[5], net.group[6], net.group[7], net.group[8]
    at = net.blocks[1, 0]
    for g in range(models):
        x0, x1, x2 = x[at + g], x[at + models + g], x[at + 2 * models + g]
        x3, row = here[regions + g], q.shared[regions + g]
        for j in range(width):
            row[j] = x0 * w0[j] + x1 * w1[j] + x2 * w2[j] + x3 * w3[j]
    w0, w1, w2 = net.group[9], net.group[10], net.group[11]
    at = net.blocks[2, 0]
    for g in range(units):
        x0, x1 = x[at + g], x[at + units + g]
        x2, row = here[regions + models + g], q.shared[regions + models + g]
        for j in range(width):
            row[j] = x0 * w0[j] + x1 * w1[j] + x2 * w2[j]


@_inlined
def _score_two(
    net: Net, x: Float32s, d: int, e: int, output: Floats, q: Memory
) -> tuple[float, float]:
    """Logits of two deployments: the weights are loaded once for both."""
    regions, models = net.blocks[0, 2], net.blocks[1, 2]
    r, s = q.shared[net.groups[0, d]], q.shared[net.groups[0, e]]
    m, n = q.shared[regions + net.groups[1, d]], q.shared[regions + net.groups[1, e]]
    u = q.shared[regions + models + net.groups[2, d]]
    v = q.shared[regions + models + net.groups[2, e]]
    fixed, solid, own = net.fixed[d], net.fixed[e], net.own
    at, to, step = net.blocks[3, 0] + d, net.blocks[3, 0] + e, net.blocks[3, 2]
    x0, x1, x2, x3 = x[at], x[at + step], x[at + 2 * step], x[at + 3 * step]
    x4, x5, x6 = x[at + 4 * step], x[at + 5 * step], x[at + 6 * step]
    y0, y1, y2, y3 = x[to], x[to + step], x[to + 2 * step], x[to + 3 * step]
    y4, y5, y6 = x[to + 4 * step], x[to + 5 * step], x[to + 6 * step]
    w0, w1, w2, w3, w4, w5, w6 = own[0], own[1], own[2], own[3], own[4], own[5], own[6]
    first = second = 0.0
    for j in range(fixed.shape[0]):  # in one loop: it stores nothing, so nothing can overlap
        z = fixed[j] + r[j] + m[j] + u[j] + x0 * w0[j] + x1 * w1[j]
        z += x2 * w2[j] + x3 * w3[j] + x4 * w4[j] + x5 * w5[j] + x6 * w6[j]
        first += (z if z > 0.0 else 0.0) * output[j]
        z = solid[j] + s[j] + n[j] + v[j] + y0 * w0[j] + y1 * w1[j]
        z += y2 * w2[j] + y3 * w3[j] + y4 * w4[j] + y5 * w5[j] + y6 * w6[j]
        second += (z if z > 0.0 else 0.0) * output[j]
    return first - net.prior[0] * x3, second - net.prior[0] * y3


@_kernel
def score(net: Net, observations: Float32s, turns: Floats, q: Memory, logits: Float32s) -> None:
    """Logits (B, D), from what each turn adds and then its output weights, (B, 2·H)."""
    width, last = net.fixed.shape[1], net.fixed.shape[0] - 1
    for b in range(observations.shape[0]):
        x, row = observations[b], logits[b]
        added, output = turns[b, :width], turns[b, width:]
        _share(net, x, added, q)
        for d in range(0, last + 1, 2):
            e = min(d + 1, last)
            row[d], row[e] = _score_two(net, x, d, e, output, q)


@_inlined
def best_allowed(
    net: Net, x: Float32s, mask: NDArray[Any], added: Floats, output: Floats, q: Memory
) -> int:
    """The first of the allowed deployments with the highest logit; -1 if none is allowed."""
    _share(net, x, added, q)
    count = 0
    for d in range(mask.shape[0]):  # without a branch, which would be guessed wrong often
        q.allowed[count] = d
        count += 1 if mask[d] else 0
    found, highest = -1, 0.0
    for i in range(0, count, 2):
        d, e = q.allowed[i], q.allowed[min(i + 1, count - 1)]
        one, other = _score_two(net, x, d, e, output, q)
        if found < 0 or one > highest:
            found, highest = d, one
        if other > highest:
            found, highest = e, other
    return found


@_kernel
def choose(
    net: Net,
    observations: Float32s,
    masks: NDArray[np.bool_],
    turns: Floats,
    q: Memory,
    best: NDArray[np.int64],
) -> None:
    """The choice of every row; masks (B, D), see `best_allowed`."""
    width = net.fixed.shape[1]
    for b in range(observations.shape[0]):
        added, output = turns[b, :width], turns[b, width:]
        best[b] = best_allowed(net, observations[b], masks[b], added, output, q)
