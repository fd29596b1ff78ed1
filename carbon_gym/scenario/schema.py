"""The sections of a scenario: what an experiment is about, validated and frozen.

Every default carries its label (PUBLISHED, DERIVED or ASSUMED) and, where there is one, the
section of the model's specification it comes from. Mappings are avoided in favour of tuples and
sub-models, so that a frozen scenario cannot be changed through a nested dict.
"""

from __future__ import annotations

from datetime import date
from itertools import pairwise
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from carbon_gym.scenario.section import NonNegative, Positive, Section, Share, Unit

Split = Literal["train", "validation", "test"]

CATEGORIES = ("coding", "math", "reasoning", "creative", "information")
"""Task categories, in the order of every category index (SPEC §4)."""


class EnergyProfile(Section):
    """Energy ratios of SPEC §2."""

    cached_input_ratio: Unit = 0.03
    """ρ_c, energy of a cached against an uncached input token (DERIVED)."""
    output_ratio: NonNegative = 4.0
    """ρ_o, energy of an output against an uncached input token (DERIVED)."""
    reference_kwh_per_token: Positive | None = None
    """kWh per uncached input token of the reference model on the reference GPU; None: physical,
    from FLOPs, power and utilisation (SPEC §2)."""
    reference_params_billion: Positive = 70.55
    """Size of the reference model, 1e9 parameters (PUBLISHED: Llama-3.1-70B)."""


class Caches(Section):
    """KV caches (SPEC §3)."""

    ttl_s: NonNegative = 600.0
    """Time to live of an idle cache, s (ASSUMED)."""
    on_leave: Literal["retain", "evict"] = "retain"
    """What a backend does with a session's cache once another deployment serves it."""
    memory_pressure: bool = True
    """Whether the KV room bounds the caches (least recently used session evicted first)."""


class Capacity(Section):
    """Capacity of the pools (SPEC §3)."""

    limit: Positive | None = 0.5
    """c; None: no limit."""
    scope: Literal["pool", "region"] = "pool"
    rule: Literal["sessions", "turns"] = "sessions"
    residency_s: NonNegative = 1800.0
    """How long a session stays active after its last turn, s (ASSUMED)."""
    slot_s: NonNegative = 300.0
    """Trailing window of the `turns` rule, s."""


class PredictorBias(Section):
    """How far the predictor is wrong about one model, always in the same direction."""

    model: Annotated[str, Field(min_length=1)]
    """Name of a model of the fleet."""
    bias: Annotated[float, Field(ge=-1, le=1)]
    """Added to its predicted quality before clipping; positive: overrated."""


class Quality(Section):
    """The default quality predictor: item response theory on the judge scale (SPEC §4)."""

    session_sd: NonNegative = 0.6
    """sd of the session effect on difficulty, logits (ASSUMED)."""
    turn_sd: NonNegative = 0.4
    """sd of the turn effect on difficulty, logits (ASSUMED)."""
    later_turn_shift: Annotated[float, Field(allow_inf_nan=False)] = 0.25
    """Added difficulty from the second turn on, logits (DERIVED from MT-bench)."""
    centring: Annotated[float, Field(allow_inf_nan=False)] = -0.2
    """Constant of the difficulty, logits (ASSUMED)."""
    predictor_sd: NonNegative = 0.03
    """sd of the predictor's error per turn and model (ASSUMED)."""
    predictor_bias: tuple[PredictorBias, ...] = ()
    """Models that the predictor overrates or underrates (none by default, ASSUMED); realised
    quality is untouched."""
    predictor: Annotated[str, Field(pattern=r"^[\w.]+:\w+$")] | None = None
    """A predictor of your own, `module:Class`, made as ``Class(quality, seeds.quality)``; None: the
    one above (`carbon_gym.quality.predictor`)."""

    @model_validator(mode="after")
    def _models_are_unique(self) -> Self:
        names = [entry.model for entry in self.predictor_bias]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"predictor_bias names {twice[0]!r} twice; name each model once")
        return self


class Bounds(Section):
    """Constraints of the router (SPEC §4, §5)."""

    beta_q: Unit = 0.85
    """β_Q: a model is admissible with at least this share of the best predicted quality."""
    ttft_s: Positive = 2.0
    """τ, bound on the time to first token, s (ASSUMED)."""
    quality_constraint: Literal["filter", "budget"] = "filter"
    """Quality per query, or as a mean with a floor per query (SPEC §8)."""
    beta_floor: Unit = 0.7
    """β_floor: under `budget`, a model is admissible with at least this share of the best predicted
    quality (ASSUMED)."""
    quality_target: Unit | None = None
    """Under `budget`, the mean predicted quality to reach; None: what CCAR reaches under the filter
    on the validation split."""

    @property
    def admissible_share(self) -> float:
        """Share of the best predicted quality from which a model is admissible."""
        return self.beta_q if self.quality_constraint == "filter" else self.beta_floor


class CategoryShares(Section):
    """Share of the sessions whose most frequent category is ... (SPEC §4); they add up to 1."""

    coding: Unit
    math: Unit
    reasoning: Unit
    creative: Unit
    information: Unit

    @model_validator(mode="after")
    def _add_up(self) -> Self:
        total = sum(self.in_order())
        if abs(total - 1) > 1e-3:
            raise ValueError(f"category_shares must add up to 1, not to {total:g}; change some")
        return self

    def in_order(self) -> tuple[float, ...]:
        """Shares in the order of `CATEGORIES`."""
        return tuple(float(getattr(self, name)) for name in CATEGORIES)


class Workload(Section):
    """Where conversations come from and how they are laid over a day.

    `source` "generated" draws sessions from the packaged (or user-calibrated) statistics in
    `statistics`; "file" reads `path` in `format`.
    """

    source: Literal["generated", "file"] = "generated"
    statistics: str = "sharegpt"
    """Name of a packaged statistics resource in configs/workload, or a path to a JSON file."""
    path: str | None = None
    format: Literal["tokens", "sharegpt", "messages"] | None = None
    tokenizer: str | None = None
    """Path of a `tokenizer.json`; None: characters / 4."""
    log_column: Annotated[str, Field(min_length=1)] | None = None
    """Column of a tokens file that says where each turn was served, for the policy `replay`."""
    sessions_per_fleet: Annotated[int, Field(ge=0)] = 3000
    """Sessions that start on one day (ASSUMED)."""
    min_turns: Annotated[int, Field(ge=1)] = 1
    """Only sessions that keep at least this many turns."""
    context_limit_tokens: Annotated[int, Field(ge=1)] = 32_768
    """A session ends before its first turn with H + q + o above this (ASSUMED, SPEC §1)."""
    gap_log_mean: Annotated[float, Field(allow_inf_nan=False)] = 4.885
    """μ of the log-normal gap between the turns of a session, log s (PUBLISHED: Mooncake)."""
    gap_log_sd: NonNegative = 0.978
    """σ of the log-normal gap, log s (PUBLISHED: Mooncake)."""
    dispersion: Annotated[float, Field(ge=1, allow_inf_nan=False)] = 3.0
    """Index of dispersion of the session starts per minute (DERIVED: Mooncake, 2.95)."""
    predicted_output_prior_tokens: Positive | None = None
    """Training mean of the reply tokens, the prior of ô (SPEC §5). None: from `statistics`."""
    predicted_output_log_sd: NonNegative = 0.0
    """sd of the error of log ô: each ô times a log-normal draw of median 1 (0, as in SPEC §5)."""
    category_shares: CategoryShares | None = None
    """Shares from which the category is drawn of a session without one. None: from
    `statistics`."""

    @model_validator(mode="after")
    def _file_has_path(self) -> Self:
        if self.source == "file" and (self.path is None or self.format is None):
            raise ValueError(
                "workload.source is 'file' but path or format is missing; give both "
                "(format: tokens, sharegpt or messages)"
            )
        if self.source == "generated" and (self.path or self.format or self.tokenizer):
            raise ValueError(
                "workload names a path, format or tokenizer, but its source is 'generated'; add "
                "`source: file`, or leave them out"
            )
        if self.log_column is not None and self.format != "tokens":
            raise ValueError(
                f"workload.log_column names the column {self.log_column!r}, which only a file in "
                "the tokens format has; give one, or leave log_column out"
            )
        return self


class Grid(Section):
    """Carbon intensity of the regions' zones on a 5-minute UTC clock."""

    source: Literal["generated", "file"] = "generated"
    statistics: str = "electricitymaps_2021_2022"
    """Name of a packaged statistics resource in configs/grid, or a path to a JSON file."""
    paths: tuple[str, ...] = ()
    staleness_s: NonNegative = 0.0
    """How much older than the account's the router's intensity is, s (ci_staleness_s)."""

    @model_validator(mode="after")
    def _file_has_path(self) -> Self:
        if self.source == "file" and not self.paths:
            raise ValueError("grid.source is 'file' but grid.paths is empty; name at least one CSV")
        if self.source == "generated" and self.paths:
            raise ValueError(
                "grid names paths, but its source is 'generated'; add `source: file`, or leave "
                "them out"
            )
        return self


class Period(Section):
    """Days [start, stop), UTC."""

    start: date
    stop: date

    @model_validator(mode="after")
    def _is_not_empty(self) -> Self:
        if self.stop <= self.start:
            raise ValueError(f"stop {self.stop} must lie after start {self.start}")
        return self

    @property
    def days(self) -> int:
        """Number of days."""
        return (self.stop - self.start).days


class Splits(Section):
    """Train, validation and test: disjoint sessions and disjoint days."""

    train_share: Share = 0.6
    validation_share: Share = 0.2
    train: Period = Period(start=date(2021, 1, 1), stop=date(2022, 1, 1))
    validation: Period = Period(start=date(2022, 1, 1), stop=date(2023, 1, 1))
    test: Period = Period(start=date(2023, 1, 1), stop=date(2024, 1, 1))

    @model_validator(mode="after")
    def _are_disjoint(self) -> Self:
        if self.train_share + self.validation_share >= 1:
            raise ValueError(
                "train_share + validation_share must be below 1, to leave a test split"
            )
        periods = sorted(
            ((self.train, "train"), (self.validation, "validation"), (self.test, "test")),
            key=lambda item: item[0].start,
        )
        for (first, first_name), (second, second_name) in pairwise(periods):
            if second.start < first.stop:
                raise ValueError(
                    f"periods of {first_name} and {second_name} overlap; keep them apart"
                )
        return self

    def period(self, split: Split) -> Period:
        """Days of a split."""
        return {"train": self.train, "validation": self.validation, "test": self.test}[split]


class Seeds(Section):
    """Named seeds; each feeds its own draws and nothing else."""

    split: int = 20260
    """Key of the split hash."""
    workload: int = 20261
    """Generated sessions: turns and tokens."""
    arrivals: int = 20262
    """Start times and gaps where a trace has none."""
    quality: int = 20263
    """Difficulty, categories where a trace has none, predictor errors."""
    grid: int = 20264
    """The generated grid."""
