"""From the names in a log to the deployments of a fleet."""

from __future__ import annotations

import numpy as np

from carbon_gym.errors import InputError, did_you_mean
from carbon_gym.fleet.deployments import Deployments
from carbon_gym.simulator.arrays import Ints
from carbon_gym.workload.log import Log


def logged_deployments(log: Log | None, fleet: Deployments, order: Ints | None = None) -> Ints:
    """The deployment of every turn of a log, int64 (N,).

    Args:
        log: Names, with or without spaces around their ``@``.
        fleet: Whose deployments they are.
        order: int64 (N,), turns in another order; None: as they stand.

    Raises:
        InputError: There is no log, or it names what is no deployment.
    """
    if log is None:
        raise InputError(
            "policy 'replay' follows a log of where each turn was served, and these turns have "
            "none; name its column with workload.log_column (carbon-gym audit: --rule COLUMN)"
        )
    known = {_squeezed(fleet.name(number)): number for number in range(len(fleet))}
    for name, line in zip(log.names, log.lines.tolist(), strict=True):
        if _squeezed(name) not in known:
            raise InputError(
                f"{log.source}: line {line}: {log.column} {name!r} is no deployment of the fleet; "
                f"{did_you_mean(_squeezed(name), known)}write model@GPU@region with models "
                f"{', '.join(fleet.models)}, GPUs {', '.join(fleet.gpus)} and regions "
                f"{', '.join(fleet.regions)}, or give a fleet that has it"
            )
    numbers = np.array([known[_squeezed(name)] for name in log.names], dtype=np.int64)
    served = numbers[log.code]
    return served if order is None else served[order]


def _squeezed(name: str) -> str:
    """A name without spaces around its parts."""
    return "@".join(part.strip() for part in name.split("@"))
