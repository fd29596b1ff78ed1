"""What a family of policies saves at the mean realised quality of a reference, fleet by fleet."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Literal, TypedDict

import numpy as np
from numpy.typing import ArrayLike, NDArray

from carbon_gym.metrics.intervals import MIN_FLEETS_FOR_T, paired_t

Floats = NDArray[np.float64]


class Estimate(TypedDict):
    """Mean of one figure per fleet, with the 95 % t interval from five fleets on."""

    mean: float
    low: float | None
    high: float | None
    fleets: int
    method: Literal["paired-t-over-fleets", "mean-over-fleets"]


class EqualQuality(TypedDict):
    """CO2 saved by a family at the quality of the reference.

    Attributes:
        saving: Share of the reference's CO2, mean over fleets; None with a reason.
        by_fleet: The saving on each fleet; None where it does not exist.
        reason: Why there is no mean; None where there is one.
    """

    saving: Estimate | None
    by_fleet: list[float | None]
    reason: str | None


def estimate(by_fleet: ArrayLike) -> Estimate | None:
    """Mean over fleets of a paired figure.

    Args:
        by_fleet: float64 (F,); NaN where a fleet has none (it served no turn).

    Returns:
        None without any fleet; low and high are None with fewer than five.
    """
    values = np.asarray(by_fleet, dtype=np.float64)
    values = values[np.isfinite(values)]
    if len(values) == 0:
        return None
    if len(values) < MIN_FLEETS_FOR_T:
        return Estimate(
            mean=float(values.mean()),
            low=None,
            high=None,
            fleets=len(values),
            method="mean-over-fleets",
        )
    interval = paired_t(values)
    return Estimate(
        mean=interval["mean"],
        low=interval["low"],
        high=interval["high"],
        fleets=len(values),
        method="paired-t-over-fleets",
    )


def co2_at_quality(quality: ArrayLike, co2_g: ArrayLike, wanted: float) -> float | None:
    """CO2 of a curve at a quality: log CO2 linear in quality between neighbouring points.

    Args:
        quality: float64 (P,), mean quality of each point, in the order of the family's knob.
        co2_g: float64 (P,), gCO2eq of each point, positive.
        wanted: The quality to interpolate at.

    Returns:
        gCO2eq, the least where the curve comes past `wanted` more than once; None where it does
        not: nothing is extrapolated.
    """
    points = zip(np.asarray(quality).tolist(), np.asarray(co2_g).tolist(), strict=True)
    crossings: list[float] = []
    for (quality_a, co2_a), (quality_b, co2_b) in pairwise(points):
        if min(quality_a, quality_b) < wanted < max(quality_a, quality_b):
            share = (wanted - quality_a) / (quality_b - quality_a)
            crossings.append(math.exp((1.0 - share) * math.log(co2_a) + share * math.log(co2_b)))
        crossings += [co2_a] * (quality_a == wanted) + [co2_b] * (quality_b == wanted)
    return min(crossings) if crossings else None


def saving_at_equal_quality(
    quality: Floats, co2_g: Floats, reference_quality: Floats, reference_co2_g: Floats
) -> EqualQuality:
    """Saving of a family over a reference at the reference's quality on each fleet.

    Args:
        quality: float64 (P, F), mean realised quality of each point on each fleet.
        co2_g: float64 (P, F), gCO2eq.
        reference_quality: float64 (F,).
        reference_co2_g: float64 (F,), gCO2eq.

    Returns:
        No mean unless every fleet that emits has one: leaving out those that the curve does not
        reach would choose among fleets by their outcome.
    """
    emits = (co2_g > 0).all(axis=0) & (reference_co2_g > 0)
    by_fleet: list[float | None] = [None] * len(reference_co2_g)
    below = above = 0
    for f in np.flatnonzero(emits):
        wanted = float(reference_quality[f])
        co2 = co2_at_quality(quality[:, f], co2_g[:, f], wanted)
        if co2 is not None:
            by_fleet[f] = 1.0 - co2 / float(reference_co2_g[f])
        elif wanted < quality[:, f].min():
            below += 1
        else:
            above += 1
    reason = None
    if not emits.any():
        reason = "no fleet on which all emit"
    elif len(quality) < 2:
        reason = "a single point has no curve"
    elif below or above:
        where = [f"below the curve on {below}"] * (below > 0)
        where += [f"above the curve on {above}"] * (above > 0)
        reason = f"ccar's quality is {' and '.join(where)} of {int(emits.sum())} fleets"
    if reason is not None:
        return EqualQuality(saving=None, by_fleet=by_fleet, reason=reason)
    savings = [saving for saving in by_fleet if saving is not None]
    return EqualQuality(saving=estimate(savings), by_fleet=by_fleet, reason=None)
