"""How long a decision takes: ``python -m carbon_gym.router.measure [router.npz] [scenario]``.

Set ``OMP_NUM_THREADS=1`` for one core.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from carbon_gym.errors import InputError
from carbon_gym.router.plan import signature
from carbon_gym.router.router import Router, load_router
from carbon_gym.router.weights import Weights, shapes

if TYPE_CHECKING:
    from carbon_gym.envs.layout import ObservationLayout

BATCH = 1024


def made_up_router(layout: ObservationLayout, width: int = 32, turn_width: int = 32) -> Router:
    """A router of random weights: as slow as a trained one."""
    rng = np.random.default_rng(0)
    arrays: dict[str, Any] = {
        name: rng.normal(0.0, 0.2, shape).astype(np.float32)
        for name, shape in shapes(width, turn_width).items()
    }
    return Router(Weights(**arrays), {"layout": signature(layout), "recipe": {}})


def decision_times_s(
    router: Router, layout: ObservationLayout, batch: int, repeats: int = 50
) -> tuple[float, float]:
    """Measure decisions on random observations, half of the deployments allowed.

    Args:
        router: What decides.
        layout: Of the fleet.
        batch: Decisions at once.
        repeats: Calls after a first one; the median counts.

    Returns:
        Seconds a decision of `Router.act`, and of `Router.logits`.
    """
    rng = np.random.default_rng(0)
    observations = rng.uniform(layout.low, layout.high, (batch, layout.size)).astype(np.float32)
    masks = rng.random((batch, len(layout.fleet))) < 0.5
    masks[:, 0] = True
    return (
        _median_s(lambda: router.act(observations, masks, layout), repeats) / batch,
        _median_s(lambda: router.logits(observations, layout), repeats) / batch,
    )


def _median_s(call: Callable[[], object], repeats: int) -> float:
    call()
    took = []
    for _ in range(repeats):
        began_s = time.perf_counter()
        call()
        took.append(time.perf_counter() - began_s)
    return float(np.median(took))


def main(arguments: Sequence[str] | None = None) -> None:
    """Print both, alone and in batches, compiled and by NumPy alone."""
    parser = argparse.ArgumentParser(
        prog="python -m carbon_gym.router.measure", description="How long a decision takes."
    )
    parser.add_argument("router", nargs="?", help="router.npz; default: random weights")
    parser.add_argument("scenario", nargs="?", default="sharegpt", help="whose fleet it serves")
    given = parser.parse_args(arguments)
    from carbon_gym.envs.layout import ObservationLayout
    from carbon_gym.fleet.deployments import Deployments
    from carbon_gym.scenario import load_scenario

    try:
        layout = ObservationLayout(Deployments.of(load_scenario(given.scenario)))
        router = load_router(given.router) if given.router else made_up_router(layout)
    except InputError as error:
        parser.error(str(error))
    source = given.router or "random weights"
    print(f"{source}, {len(layout.fleet)} deployments of {given.scenario}, µs:")
    for compiled in (True, False):
        router.compiled = compiled
        for batch, repeats in ((1, 2000), (BATCH, 50)):
            act_s, logits_s = decision_times_s(router, layout, batch, repeats)
            how = "numba" if compiled else "NumPy alone"
            print(f"  {how}, {batch} at once: act {1e6 * act_s:.2f}, logits {1e6 * logits_s:.2f}")


if __name__ == "__main__":
    main()
