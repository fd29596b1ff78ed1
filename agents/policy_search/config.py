"""What a policy search is: every argument, validated.

Defaults are ASSUMED: what did well on validation.
"""

from __future__ import annotations

from typing import Literal

from agents.training.config import Count, Described, Run
from carbon_gym.scenario.section import NonNegative, Positive


class Rule(Described):
    """The linear rule (`baselines.lookahead`) that is found first, to be cloned."""

    generations: Count = 16
    """Generations of the cross-entropy method."""
    population: Count = 48
    """Candidates of a generation."""


class Clone(Described):
    """The network learns what the rule does."""

    groups: Count = 8
    """Groups of training fleets whose turns are learned from."""
    epochs: Count = 5
    """Passes over them."""


class Network(Described):
    """Sizes of the scorer."""

    width: Count = 16
    """Hidden units of a deployment."""
    turn_width: Count = 16
    """Hidden units of the turn's context."""


class Es(Run):
    """es: policy search on whole fleets, by evolution strategies."""

    algo: Literal["es"]
    """es."""
    total_steps: Count = 800_000_000
    """Turns that candidates of the evolution serve; the last generation is finished."""
    beside: tuple[str, ...] = ()
    """Further scenarios on whose fleets the same router is learned; their fleets must have as many
    deployments."""
    warm_start: Literal["rule", "reference", "none"] = "rule"
    """What the network clones first: the linear rule, which is searched for; the reference, ccar or
    under a budget ccar-budget; nothing, it then begins with the cheapest deployment."""
    rule: Rule = Rule()
    """Of the search for the linear rule."""
    clone: Clone = Clone()
    """Of the cloning."""
    network: Network = Network()
    """The scorer."""
    groups: Count = 8
    """Groups of training fleets; each generation serves one of them."""
    fleets: Count = 4
    """Fleets of a group, shared out evenly to the scenarios."""
    pairs: Count = 16
    """Antithetic pairs of candidates of a generation."""
    sigma: Positive = 0.02
    """How far candidates lie from the mean at the beginning, in units of a weight's array; what
    that costs changes it."""
    step: Positive = 0.3
    """Step of Adam at the beginning, in units of sigma; it falls to a tenth over `total_steps`."""
    margin: NonNegative = 0.0
    """By how much mean predicted quality shall lie above the reference's in training."""
    validation_every: Count = 5
    """Generations from one validation to the next."""
    validation_fleets: Count = 8
    """Fleets of the validation split, of every scenario."""
    jobs: Count = 2
    """Processes; what is learned does not depend on it."""


SEARCHES: dict[str, type[Es]] = {"es": Es}
"""The algorithms that search on whole fleets, and what each is configured by."""
