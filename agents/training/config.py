"""What a training run is: every argument of the environment, algorithm and run, validated.

Values of an algorithm's own fields stand in ``configs/agents/<algo>.yaml``, on which a file of the
user's and the command line are laid; the fields of all algorithms have their defaults here. All of
them are ASSUMED: what learned well on validation, or what Stable-Baselines3 does.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import ConfigDict, Field, ValidationError, model_validator

from carbon_gym.errors import InputError, did_you_mean
from carbon_gym.resources import packaged
from carbon_gym.scenario.load import read_yaml_mapping, validation_sentence
from carbon_gym.scenario.section import NonNegative, Positive, Section, Share, Unit

Count = Annotated[int, Field(ge=1)]
Seed = Annotated[int, Field(ge=0, le=2**31 - 1)]


class Described(Section):
    """A section whose fields' docstrings are their descriptions."""

    model_config = ConfigDict(use_attribute_docstrings=True)


class Weights(Described):
    """Weights of the reward's terms; None: the environment's default."""

    quality: NonNegative | None = None
    """λ_q; under a budget by default the price that validation found."""
    ttft: NonNegative | None = None
    """λ_t."""
    capacity: NonNegative | None = None
    """λ_c."""


class Environment(Described):
    """Arguments of `CarbonRouting-v0`, for training and validation alike (docs/environment.md)."""

    fleets: Count = 16
    """Days laid as fleets, of whose sessions episodes are drawn."""
    background: str = "reference"
    """Who serves the other traffic: "reference", a policy's name, an exported router (.npz) or
    `module:Class`."""
    mask: Literal["feasible", "room"] | None = "feasible"
    """What the mask allows. Only maskable-ppo obeys it; the others pay for what they violate."""
    quality_constraint: Literal["filter", "budget"] | None = None
    """"filter" or "budget"; None: the scenario's."""
    quality_target: Unit | None = None
    """Mean predicted quality to reach under a budget; None: the scenario's."""
    weights: Weights = Weights()
    """Weights of the reward's terms."""
    co2_scale_g: Positive | None = None
    """gCO2eq per unit of reward; None: the scenario's."""
    max_turns: Count | None = None
    """Turns after which an episode of training is truncated; validation plays all. None: no
    limit."""

    def arguments(self) -> dict[str, Any]:
        """Keyword arguments of the environment."""
        weights = {k: v for k, v in self.weights.model_dump().items() if v is not None}
        return {**self.model_dump(), "weights": weights}


class Validation(Described):
    """Conversations of the validation split, served greedily while training goes on."""

    every: Count = 25_000
    """Steps from one validation to the next; one is made before and one after training too."""
    sessions: Count = 2_048
    """Conversations, at most all of the split; the same in every run of a scenario."""
    fleets: Annotated[int, Field(ge=0)] = 4
    """Whole fleets served too, which then say what is best; 0: none."""
    fleets_every: Count = 100_000
    """Steps from one validation on fleets to the next, at least; one is made before and one after
    training too."""


class Checkpoints(Described):
    """What a killed run goes on from."""

    every: Count = 50_000
    """Steps from one checkpoint to the next, counted at the ends of rollouts."""
    keep: Count = 2
    """How many of the latest are kept."""


class Run(Described):
    """A run of whatever learns."""

    algo: str
    """ppo, maskable-ppo, dqn, qrdqn, a2c, or es."""
    scenario: str = "sharegpt"
    """Packaged scenario or YAML file."""
    seed: Seed = 0
    """Of the networks, the actions and the conversations drawn."""
    total_steps: Count = 500_000
    """Turns to train on; the last rollout is finished."""


class Config(Run):
    """A run of any algorithm of Stable-Baselines3 or sb3-contrib."""

    device: Literal["auto", "cpu", "cuda"] = "auto"
    """"cpu", "cuda", or "auto": cuda where there is one."""
    torch_threads: Count = 1
    """CPU threads of torch. With small networks more than one only cost time (measured)."""
    lanes: Count = 32
    """Conversations side by side."""
    lane_threads: Count = 1
    """CPU threads that share the lanes."""
    net_arch: tuple[Count, ...] = (64, 64)
    """Widths of the hidden layers over the flat observation, of each of its networks."""
    learning_rate: Positive
    """Step size of the optimizer."""
    learning_rate_schedule: Literal["constant", "linear"] = "constant"
    """"linear": falls to 0 over `total_steps`."""
    gamma: Share
    """Discount per turn."""
    log_every: Count
    """Rollouts (ppo, maskable-ppo, a2c) or episodes (dqn, qrdqn) from one line of TensorBoard to
    the next."""
    environment: Environment = Environment()
    """Arguments of the environment."""
    validation: Validation = Validation()
    """Figures on held-out conversations."""
    checkpoints: Checkpoints = Checkpoints()
    """What `--resume` needs."""

    def hyper(self) -> dict[str, Any]:
        """The algorithm's own fields, by their names in Stable-Baselines3."""
        return self.model_dump(include=set(type(self).model_fields) - set(Config.model_fields))


class Scorer(Described):
    """Sizes of `agents.scorer`, used with `policy: scorer`."""

    width: Count = 32
    """Hidden units of a deployment."""
    turn_width: Count = 32
    """Hidden units of the turn's context."""
    value_width: Count = 32
    """Hidden units of the value function."""
    prior_weight: NonNegative = 0.0
    """How much the untrained network prefers what CCAR's price prefers; 0: not at all."""


class WarmStart(Described):
    """Behaviour cloning before the first rollout."""

    policy: str | None = None
    """Whose decisions the network first learns: a policy as `carbon-gym record` takes it, or a
    folder that it wrote. None: no warm start."""
    fleets: Count = 4
    """Training fleets that it serves for that; of a folder all are used."""
    epochs: Count = 5
    """Passes over its decisions."""
    learning_rate: Positive = 0.001
    """Step size of the optimizer, Adam, which is forgotten afterwards."""
    batch_size: Count = 1024
    """Decisions in a minibatch."""


class OnPolicy(Config):
    """What ppo, maskable-ppo and a2c share."""

    policy: Literal["mlp", "scorer"] = "mlp"
    """"mlp": a plain network over the flat observation, of `net_arch`; "scorer": one small network
    that scores every deployment, for fleets of any size; `carbon-gym export` writes only those."""
    scorer: Scorer = Scorer()
    """Sizes of the scorer."""
    warm_start: WarmStart = WarmStart()
    """Behaviour cloning before the first rollout."""
    n_steps: Count
    """Steps of every lane between updates; a rollout is `n_steps` times `lanes`."""
    gae_lambda: Unit
    """λ of the generalised advantage estimate."""
    ent_coef: NonNegative
    """Weight of the entropy in the loss."""
    vf_coef: NonNegative
    """Weight of the value function in the loss."""
    max_grad_norm: Positive
    """Largest norm of a gradient."""
    normalize_advantage: bool
    """Whether advantages are normalised, by minibatch."""
    value_target: Literal["raw", "symlog"] = "raw"
    """What the value function is fitted to: the returns, or sign(R)·ln(1 + abs(R)), which a few
    very dear conversations do not rule. Rewards are never clipped."""

    @model_validator(mode="after")
    def _rollouts_have_a_spread(self) -> Self:
        if self.n_steps * self.lanes < 2:
            raise ValueError("n_steps · lanes must be at least 2 steps")
        return self


class Ppo(OnPolicy):
    """ppo and maskable-ppo."""

    algo: Literal["ppo", "maskable-ppo"]
    """Which of the two."""
    batch_size: Annotated[int, Field(ge=2)]
    """Steps in a minibatch; divides `n_steps` times `lanes`."""
    n_epochs: Count
    """Passes over a rollout."""
    clip_range: Positive
    """How far the ratio of new to old probability may leave 1."""
    clip_range_vf: Positive | None
    """How far a value may move from the old one, on the scale of `value_target`; None: no limit."""
    target_kl: Positive | None
    """Passes stop at 1.5 times this mean divergence from the old policy; None: they do not."""

    @model_validator(mode="after")
    def _batches_fill_a_rollout(self) -> Self:
        if self.n_steps * self.lanes % self.batch_size:
            raise ValueError(
                f"n_steps · lanes = {self.n_steps * self.lanes} steps are no multiple of "
                f"batch_size = {self.batch_size}"
            )
        return self


class A2c(OnPolicy):
    """a2c."""

    algo: Literal["a2c"]
    """a2c."""
    use_rms_prop: bool
    """RMSprop as optimizer, else Adam."""
    rms_prop_eps: Positive
    """ε of RMSprop."""


class Dqn(Config):
    """dqn, and what qrdqn shares with it."""

    algo: Literal["dqn", "qrdqn"]
    """Which of the two."""
    buffer_size: Count
    """Transitions kept for replay, over all lanes; two observations each (sharegpt: 3.9 kB)."""
    learning_starts: Annotated[int, Field(ge=0)]
    """Steps before the first update, actions uniformly random."""
    batch_size: Count
    """Transitions in a minibatch."""
    tau: Share
    """How far the target network moves at its update."""
    train_freq: Count
    """Steps of every lane between updates."""
    gradient_steps: Annotated[int, Field(ge=-1)]
    """Minibatches at an update; -1: as many as steps were made, `train_freq` times `lanes`."""
    target_update_interval: Count
    """Steps between updates of the target network."""
    exploration_fraction: Share
    """Share of the training over which random actions become fewer."""
    exploration_initial_eps: Unit
    """Share of random actions at the beginning."""
    exploration_final_eps: Unit
    """Share of random actions at the end of that."""
    max_grad_norm: Positive
    """Largest norm of a gradient."""


class QrDqn(Dqn):
    """qrdqn."""

    n_quantiles: Count
    """Quantiles of the distribution of returns."""


CONFIGS: dict[str, type[Config]] = {
    "ppo": Ppo,
    "maskable-ppo": Ppo,
    "dqn": Dqn,
    "qrdqn": QrDqn,
    "a2c": A2c,
}
"""The algorithms, and what each is configured by."""


def load_config(algo: str | None = None, file: Path | None = None, **options: Any) -> Config:
    """`load_run` of one of `CONFIGS`.

    Example:
        >>> load_config("a2c", total_steps=1_000).hyper()["n_steps"]
        16
    """
    return load_run(CONFIGS, algo, file, **options)


Kind = TypeVar("Kind", bound=Run)


def load_run(
    kinds: Mapping[str, type[Kind]],
    algo: str | None = None,
    file: Path | None = None,
    **options: Any,
) -> Kind:
    """Lay a file over the algorithm's packaged configuration, and options over both.

    Args:
        kinds: The algorithms, and what each is configured by.
        algo: Algorithm; None: the one that the file names.
        file: YAML file; None: none.
        **options: Fields of the configuration; None: not given.

    Raises:
        InputError: An unknown algorithm or key, or a value that is not allowed; the sentence names
            the file, or the option of the command line, and the key.
    """
    content = {} if file is None else read_yaml_mapping(file, example="total_steps: 100000")
    name = algo or content.get("algo")
    if name is None:
        raise InputError(f"give --algo with one of {', '.join(kinds)}")
    if not isinstance(name, str) or name not in kinds:
        where = f"--algo {name!r}" if algo else f"{file}: algo = {name!r}"
        hint = did_you_mean(name, kinds)
        raise InputError(f"{where} is not known; {hint}use one of {', '.join(kinds)}")
    base = packaged(f"agents/{name}.yaml")
    given = {"algo": name, **{key: value for key, value in options.items() if value is not None}}
    merged = _merge(_merge(read_yaml_mapping(base), content), given)
    try:
        return kinds[name].model_validate(merged)
    except ValidationError as error:
        places = [problem["loc"][0] for problem in error.errors() if problem["loc"]]
        wrong = [f"--{key.replace('_', '-')}" for key in given if key in places]
        where = wrong[0] if wrong else str(file or f"agents/{name}.yaml")
        raise InputError(validation_sentence(error, where, kinds[name])) from None


def _merge(base: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in change.items():
        old = merged.get(key)
        nested = isinstance(old, Mapping) and isinstance(value, Mapping)
        merged[key] = _merge(old, value) if nested else value  # type: ignore[arg-type]
    return merged
