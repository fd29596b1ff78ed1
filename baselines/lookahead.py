"""Look-ahead: CCAR's price less what a choice is worth to turns to come, in linear terms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from baselines.narrowing import per_query
from baselines.stateless import positive
from carbon_gym.errors import InputError, did_you_mean
from carbon_gym.fleet.deployments import Deployments
from carbon_gym.quality.queue import QualityQueue
from carbon_gym.simulator.arrays import (
    NOWHERE,
    BoolTable,
    Floats,
    FloatTable,
    Indices,
    Int32Table,
    Ints,
    IntTable,
)
from carbon_gym.simulator.choosing import cheapest_of_lane
from carbon_gym.simulator.jit import kernel
from carbon_gym.simulator.quotes import Quotes

VALUES = ("staying", "same_region", "same_model", "cached", "gpu_energy", "load")
"""Weights of the value of a cache, as a share of what its tokens would cost to compute again."""
PLACES = ("place", "place_clean", "place_full")
"""Weights of the price of a place in a pool, in units of `scale_co2_g`."""
PRICE = "log_price"
"""How far the price of quality is from `price_g`, on the logarithm."""
NAMES = (*VALUES, *PLACES, PRICE)
"""The weights, beside one for the caches of each model."""


class Lookahead:
    """``argmin co2 − value·(H + q + ô)·e_in·PUE·CI + scale·place − price·q̂`` over F.

    The value is linear: a weight for the model whose cache is made, plus those of `VALUES`: for
    staying on the deployment of the last turn, or in its region, or on its model; for the share of
    the tokens that are cached there; for how much more energy the GPU takes than the thriftiest
    one for that model; and for the pool's load. So is the price of a place in a pool, which grows
    with its load L (others over places, at most 1; their share of all where no limit binds):

        place·L + place_clean·L·max(0, 1 − CI/mean CI over regions) + place_full·L².

    Unlike a value it does not grow with the turn: a dear turn outbids a cheap one for a place in a
    clean region. With the place weights 0 it is the rule of an independent study (issue 6).

    Args:
        scale_co2_g: faircarbon's mean CO2 per turn on validation, gCO2eq.
        weights: Mapping from names of `NAMES` to numbers; those left out are 0. Or, in a search, to
            one number per lane.
        caches: Weight of a model's caches, as (billion parameters, weight) in ascending order; of
            other models by interpolation on the logarithm of their size, held beyond the ends.
        price_g: gCO2eq per unit of predicted quality, under a budget; 0: quality is filtered.
        quality_target: Mean predicted quality to reach under a budget, with `eta`.
        eta: η by which a queue moves the price to it (`carbon_gym.quality.queue`); 0 keeps it.
        name: In tables.
    """

    def __init__(
        self,
        scale_co2_g: float,
        weights: Mapping[str, float | Floats],
        caches: tuple[tuple[float, float | Floats], ...] = ((1.0, 0.0),),
        price_g: float = 0.0,
        quality_target: float = 0.0,
        eta: float = 0.0,
        name: str = "lookahead",
    ) -> None:
        self.name = name
        self.scale_co2_g = positive(name, scale_co2_g=scale_co2_g)
        for key in weights:
            if key not in NAMES:
                raise InputError(
                    f"{name}: weight {key!r} is not known; {did_you_mean(key, NAMES)}use "
                    f"{', '.join(NAMES)}"
                )
        self.weights, self.caches, self.price_g = dict(weights), caches, price_g
        self.quality_target, self.eta = quality_target, eta
        self._table: FloatTable | None = None

    def reset(self, fleet: Deployments, slots: int) -> None:
        """Read the fleet."""
        self._fleet, self._table = fleet, None
        energy = fleet.energy_kwh_per_token
        thrifty = np.full(len(fleet.models), np.inf)
        np.minimum.at(thrifty, fleet.model, energy)
        self._index = Index(
            fleet.model.astype(np.uint32),
            fleet.region.astype(np.uint32),
            fleet.unit.astype(np.uint32),
            fleet.name_rank,
            energy,
            energy / thrifty[fleet.model] - 1.0,
        )

    @property
    def factor(self) -> Floats | None:
        """By how much the queue multiplies the price of quality now, (B,); None without one."""
        return None if self.eta <= 0.0 or self._table is None else self._queue.factor

    def choose(self, quotes: Quotes) -> Ints:
        """The deployment of the least price, best effort included."""
        return self._choose(quotes) if self.price_g else self._choose_filtered(quotes)

    @per_query
    def _choose_filtered(self, quotes: Quotes) -> Ints:
        return self._choose(quotes)

    def _choose(self, quotes: Quotes) -> Ints:
        if self._table is None:
            self._table = self._weights_of(quotes.lanes)
            self._queue = QualityQueue(quotes.lanes, self.eta)
        choice = np.empty(quotes.lanes, dtype=np.int64)
        look_ahead(
            self._index,
            self._table,
            self.scale_co2_g,
            self.price_g * self._queue.factor,
            quotes.row,
            quotes.prompt_tokens,
            quotes.history_tokens,
            quotes.predicted_output_tokens,
            quotes.previous,
            quotes.facility_intensity,
            quotes.quality,
            quotes.unit_load,
            quotes.unit_places,
            quotes.cached_tokens,
            quotes.co2_g,
            quotes.ttft_s,
            quotes.available,
            quotes.admissible,
            quotes.feasible,
            choice,
        )
        if self.eta > 0.0:
            model = self._fleet.model[np.maximum(choice, 0)]
            got = quotes.quality[np.arange(quotes.lanes), model]
            self._queue.account(quotes.row != NOWHERE, self.quality_target, got)
        return choice

    def _weights_of(self, lanes: int) -> FloatTable:
        """Weights by lane, float64 (B, M + len(NAMES)): the models' caches, then `NAMES`."""
        sizes = np.log(self._fleet.params_billion)
        known = np.log([size for size, _ in self.caches])
        values = [np.broadcast_to(np.asarray(value, float), lanes) for _, value in self.caches]
        caches = np.array([np.interp(sizes, known, lane) for lane in np.stack(values, axis=1)])
        others = [np.broadcast_to(np.asarray(self.weights.get(name, 0.0)), lanes) for name in NAMES]
        return np.ascontiguousarray(np.concatenate([caches, np.stack(others, axis=1)], axis=1))


class Index(NamedTuple):
    """What the rule reads of a fleet, by deployment."""

    model: Indices
    region: Indices
    unit: Indices
    name_rank: Ints
    energy_kwh_per_token: Floats
    more_energy: Floats  # than the thriftiest GPU for the model, as a share of it


@kernel
def look_ahead(
    f: Index,
    weights: FloatTable,
    scale_co2_g: float,
    price_g: Floats,
    row: Ints,
    prompt_tokens: Ints,
    history_tokens: Ints,
    predicted_output_tokens: Floats,
    previous: Ints,
    facility_intensity: FloatTable,
    quality: FloatTable,
    unit_load: IntTable,
    unit_places: IntTable,
    cached_tokens: Int32Table,
    co2_g: FloatTable,
    ttft_s: FloatTable,
    available: BoolTable,
    admissible: BoolTable,
    feasible: BoolTable,
    choice: Ints,
) -> None:
    """Choose for every lane; the arrays are those of `Quotes`."""
    models, regions = quality.shape[1], facility_intensity.shape[1]
    for b in range(row.shape[0]):
        choice[b] = NOWHERE
        if row[b] == NOWHERE:
            continue
        total, mean_intensity = 0, 0.0
        for u in range(unit_load.shape[1]):
            total += unit_load[b, u]
        for r in range(regions):
            mean_intensity += facility_intensity[b, r] / regions
        tokens = history_tokens[b] + prompt_tokens[b] + predicted_output_tokens[b]
        w, last = weights[b], previous[b]
        staying, same_region, same_model = w[models], w[models + 1], w[models + 2]
        cached, gpu_energy, loaded = w[models + 3], w[models + 4], w[models + 5]
        place, place_clean, place_full = w[models + 6], w[models + 7], w[models + 8]
        priced_g = price_g[b] * np.exp(w[models + 9])
        least_g = np.inf
        for d in range(f.model.shape[0]):
            if not feasible[b, d]:
                continue
            u, intensity = f.unit[d], facility_intensity[b, f.region[d]]
            if unit_places[b, u] == NOWHERE:
                load = unit_load[b, u] / max(total, 1)
            else:
                load = min(1.0, unit_load[b, u] / max(unit_places[b, u], 1))
            value = w[f.model[d]] + cached * cached_tokens[b, d] / max(tokens, 1.0)
            value += gpu_energy * f.more_energy[d] + loaded * load
            if d == last:
                value += staying
            elif last != NOWHERE:
                value += same_region if f.region[d] == f.region[last] else 0.0
                value += same_model if f.model[d] == f.model[last] else 0.0
            cleaner = 0.0
            if mean_intensity > 0.0:
                cleaner = max(0.0, 1.0 - intensity / mean_intensity)
            asked = load * (place + place_clean * cleaner + place_full * load)
            worth_g = value * tokens * f.energy_kwh_per_token[d] * intensity
            price = co2_g[b, d] - worth_g + scale_co2_g * asked - priced_g * quality[b, f.model[d]]
            if price < least_g or (
                price == least_g
                and (co2_g[b, d], ttft_s[b, d], f.name_rank[d])
                < (co2_g[b, choice[b]], ttft_s[b, choice[b]], f.name_rank[choice[b]])
            ):
                least_g, choice[b] = price, d
        if choice[b] == NOWHERE:
            choice[b], _ = cheapest_of_lane(
                f.name_rank, co2_g[b], ttft_s[b], feasible[b], available[b], admissible[b]
            )
