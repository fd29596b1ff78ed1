"""The Gaussian copula between normal scores and tokens.

Tokens are the measured quantile at a normal score. Correlations of log tokens are weaker than
those of the scores behind them; `score_correlation` undoes that, as NORTA does (Cario and Nelson,
1997), so that generated log tokens have the measured correlations.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist
from typing import Final

import numpy as np

from carbon_gym.workload.trace import Floats, Ints

_HERMITE_ORDER: Final = 24
_QUADRATURE_POINTS: Final = 4001
_QUADRATURE_REACH: Final = 6.0


def score_grid(probabilities: Sequence[float]) -> Floats:
    """Normal scores of the probabilities at which quantiles are known, float64 (P,)."""
    normal = NormalDist()
    return np.asarray([normal.inv_cdf(p) for p in probabilities])


def tokens_at(score: Floats, grid: Floats, quantiles: Sequence[float]) -> Ints:
    """Tokens at normal scores, int64, same shape.

    Between the known quantiles log(1 + tokens) is linear in the score; beyond the ends it is flat.

    Args:
        score: float64, any shape.
        grid: float64 (P,), from `score_grid`.
        quantiles: P token counts, not decreasing.
    """
    return np.rint(np.expm1(np.interp(score, grid, np.log1p(quantiles)))).astype(np.int64)


def score_correlation(
    log_correlation: float, grid: Floats, first: Sequence[float], second: Sequence[float]
) -> float:
    """Correlation of normal scores under which log tokens have the given correlation.

    Args:
        log_correlation: Wanted correlation of log tokens (0 tokens count as 1).
        grid: float64 (P,), from `score_grid`.
        first: Quantiles of the one token count.
        second: Quantiles of the other.

    Returns:
        A number from -1 to 1; the nearest one where the wanted correlation cannot be reached.
    """
    reachable = np.linspace(-1.0, 1.0, 401)
    product = _hermite(grid, first) * _hermite(grid, second)
    powers = reachable[:, None] ** np.arange(1, _HERMITE_ORDER + 1)
    return float(np.interp(log_correlation, powers @ product, reachable))


def _hermite(grid: Floats, quantiles: Sequence[float]) -> Floats:
    """Coefficients 1.. of standardised log tokens in orthonormal Hermite polynomials."""
    z = np.linspace(-_QUADRATURE_REACH, _QUADRATURE_REACH, _QUADRATURE_POINTS)
    weight = np.exp(-0.5 * z**2)
    weight /= weight.sum()
    value = np.log(np.maximum(tokens_at(z, grid, quantiles), 1))
    value = value - weight @ value
    spread = np.sqrt(weight @ value**2)
    if spread == 0:
        return np.zeros(_HERMITE_ORDER)
    polynomial = [np.ones_like(z), z]
    for k in range(1, _HERMITE_ORDER):
        following = (z * polynomial[k] - np.sqrt(k) * polynomial[k - 1]) / np.sqrt(k + 1)
        polynomial.append(following)
    return np.asarray([weight @ (value * p) / spread for p in polynomial[1:]])
