"""How fast the environments are, beside gymnasium's CartPole in the same run."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import Any

import gymnasium
import numpy as np

from carbon_gym.speed import rounds
from carbon_gym.speed.cores import pinned
from carbon_gym.speed.players import Player, ScalarPlayer, VectorPlayer, carbon_player
from carbon_gym.speed.rounds import Bar, in_turn, no_bar, ratio

REPEAT_S = 0.2
CARTPOLE_LANES = (64, 1024)
CARBON_LANES = (1, 64, 1024, 8192)
COPIED_LANES = 1024
_YARDSTICK = "cartpole-scalar"
_COPY = "np.copyto"


@dataclass(frozen=True, slots=True)
class Row:
    """The rate of one environment.

    Attributes:
        name: What was measured, as ``carbon-vector-64-copy``.
        steps_per_s: Median of the repeats, over all lanes.
        low: Smallest.
        high: Largest.
        ratio_to_cartpole: Median over the rounds of the rate over that of `gymnasium.make`'s
            scalar CartPole-v1 in the same round, for vectors too.
    """

    name: str
    steps_per_s: float
    low: float
    high: float
    ratio_to_cartpole: float


@dataclass(frozen=True, slots=True)
class Environments:
    """What `measure_environments` found.

    Attributes:
        rows: One of each environment.
        copy_bandwidth_gb_s: 10^9 bytes/s that `np.copyto` writes between arrays as large as all
            that a step of `COPIED_LANES` lanes returns.
        bytes_per_turn: Bytes of observation, reward, flags, mask and info of one turn.
        cores: The core that all of it ran on; None where the system cannot pin.
    """

    rows: list[Row]
    copy_bandwidth_gb_s: float
    bytes_per_turn: float
    cores: list[int] | None


def measure_environments(repeats: int = 5, bar: Bar = no_bar, **options: Any) -> Environments:
    """Steps/s of CartPole-v1 and of CarbonRouting-v0, on one core and in turn.

    Actions are uniformly random and drawn beforehand. Every step of CartPole counts, also those of
    its vectors that only begin an episode; of ours only turns served. Scalar environments are
    reset within the timed part.

    Args:
        repeats: Rounds, after a warm-up of every row.
        bar: Shows progress.
        **options: Arguments of CarbonRouting-v0; default: its own, with full info.
    """
    with pinned(1) as cores:
        total = (2 + len(CARTPOLE_LANES) + 2 * len(CARBON_LANES)) * (repeats + 1) + repeats
        with bar("environments", total) as done:
            players = _players(options)
            for player in players.values():
                player.warm_up(REPEAT_S)
                done(1)
            written = _written(players)
            copier = _Copier(round(written * COPIED_LANES))
            rates = in_turn({**players, _COPY: copier}, repeats, done)
            for player in players.values():
                player.close()
    copied = rates.pop(_COPY)
    rows = [
        Row(name, median(of), min(of), max(of), ratio(of, rates[_YARDSTICK]))
        for name, of in rates.items()
    ]
    return Environments(rows, median(copied) / 1e9, written, cores)


def _players(options: dict[str, Any]) -> dict[str, Player]:
    players: dict[str, Player] = {_YARDSTICK: ScalarPlayer(gymnasium.make("CartPole-v1"))}
    for lanes in CARTPOLE_LANES:
        players[f"cartpole-vector-{lanes}"] = VectorPlayer(
            gymnasium.make_vec(
                "CartPole-v1", num_envs=lanes, vectorization_mode="vector_entry_point"
            )
        )
    players["carbon-scalar"] = ScalarPlayer(gymnasium.make("CarbonRouting-v0", **options))
    for ending, copy in (("", False), ("-copy", True)):
        for lanes in CARBON_LANES:
            name = f"carbon-vector-{lanes}{ending}"
            players[name] = carbon_player(lanes, copy=copy, **options)
    return players


def _written(players: dict[str, Player]) -> float:
    player = players[f"carbon-vector-{CARBON_LANES[-1]}"]
    assert isinstance(player, VectorPlayer)
    return player.bytes_per_turn()


class _Copier:
    """Copies an array of so many bytes into another, again and again; units are bytes."""

    def __init__(self, size: int) -> None:
        self._from, self._to = np.ones(size, np.uint8), np.zeros(size, np.uint8)
        self._times = max(1, 500_000_000 // size)

    def __call__(self) -> tuple[float, float]:
        began_s = rounds.clock_s()
        for _ in range(self._times):
            np.copyto(self._to, self._from)
        return float(self._times * self._from.nbytes), rounds.clock_s() - began_s
