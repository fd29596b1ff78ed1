"""The text of `docs/leaderboard.md`, from the entries of the board."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
from budget_tables import number, percent, share, table
from leaderboard_entries import CCAR, FAIRCARBON, SCENARIOS
from leaderboard_models import Method, Row, Submission

from carbon_gym.evaluation import DEFAULT_FLEETS
from carbon_gym.metrics.guard import Estimate, over_fleets
from carbon_gym.scenario import load_scenario

RATES = {
    "quality": "quality_violation_rate",
    "TTFT": "ttft_violation_rate",
    "capacity": "capacity_violation_rate",
}
"""Constraints of a turn, and the share of turns that break them."""
TOLERANCE = 0.001
"""How much more often than under ccar a turn may break a constraint (ASSUMED)."""
MEAN_QUALITY = "mean quality"

INTRODUCTION = f"""# Leaderboard

Routers on the same {DEFAULT_FLEETS} whole days of the test split, ranked by the CO2 that they
save over `ccar`. Everything stands in `docs/leaderboard/`, a folder an entry: `results.json`, as
`carbon-gym benchmark` wrote it, and `entry.yaml`, who and how. This page is made from them by

    python docs/leaderboard.py

and `python docs/leaderboard.py --check` says whether it is, and whether every entry is valid. Do
not edit it."""

RULES = f"""## Rules

- **Fleets.** The packaged scenario as it is, {DEFAULT_FLEETS} fleets of its test split: whole days
  of 2023 (generated conversations and grids), 3,000 conversations each. No `--fleets`,
  `--sessions`, `--start` or `--split`.
- **Nothing is learned or chosen on the test split**: weights, knobs and the choice of a seed come
  from `train` and `validation`, and `entry.yaml` says from which.
- **Seeds.** A method that is trained enters with several training seeds, better five than one. Its
  figures are means over all of them, not those of the best.
- **Constraints.** A turn may break the quality, TTFT or capacity bound where no deployment keeps
  all, and `ccar` does so too. An entry keeps a constraint if the share of turns that break it is at
  most {100 * TOLERANCE:.1f} percentage points (ASSUMED) above that of `ccar`. Where quality is a
  budget, mean realised quality may also not be below that of `ccar` (the paired 95 % interval must
  not lie below 0). Of several seeds each one has to keep it. Whoever breaks one is listed, not
  ranked.
- **Information.** What `carbon_gym.simulator.Quotes` shows at dispatch, and no more. A policy that
  is given more, such as the future, is a bound: it stands below the table.
- **Same version.** An entry holds `faircarbon` and `ccar` on its own fleets. They have to emit what
  they emit in the other entries; where a change of the simulator changes that, all entries are run
  anew or leave."""

READING = """Saved: 1 − CO2 over that of `ccar` or `faircarbon` on the same day, mean over days with
its paired 95 % t interval. Quality: mean predicted, mean realised. Violations: share of turns that
break the quality, TTFT and capacity bound. Seeds: trainings that the figures are means of; a policy
that is not trained has one. Equal savings share a rank; neighbours whose intervals overlap widely
may change places on other days."""

SUBMIT = """## How to submit a policy

All commands run in the root of the checkout.

1. Write it, as a module in that folder: [examples/own_policy.py](examples/own_policy.py) has one in
   twenty lines (`cp docs/examples/own_policy.py .`),
   [policies.md](policies.md) says what it sees.
2. Run it on one scenario of the board or on more, beside the two references:

       carbon-gym benchmark --scenario sharegpt \\
           --policies faircarbon,ccar,own_policy:CleanestGrid --out runs/mine

3. Say who and how, in `docs/leaderboard/mine/entry.yaml`, where `mine` is a name of lower-case
   letters, digits and hyphens:

   ```text
   authors: [Your Name]
   date: 2026-12-01
   version: "{version}"  # of carbon-gym, as results.json has it
   commit: "{commit}"  # of this repository
   commands:
     - carbon-gym benchmark --scenario sharegpt --policies faircarbon,ccar,own_policy:CleanestGrid
   methods:
     - name: cleanest-grid
       policies: [own_policy:CleanestGrid]  # each training seed, if there are several
       learned_on: []  # or [train, validation]
       code: examples/own_policy.py  # an address, or a path seen from docs/
   ```

4. Take over what the board reads of the results (a file of the benchmark has several megabytes, of
   which about 2 kB a policy and scenario are kept), check, and write the page:

       python docs/leaderboard.py --add mine runs/mine
       python docs/leaderboard.py
       python docs/leaderboard.py --check

5. Open a pull request with the folder and the page. Code that is read elsewhere is named by an
   address with its commit.

To try this in seconds, with the same `entry.yaml` in `runs/board/mine/`:

    carbon-gym benchmark --scenario tiny \\
        --policies faircarbon,ccar,own_policy:CleanestGrid --out runs/tried
    python docs/leaderboard.py --scenario tiny --entries runs/board --add mine runs/tried
    python docs/leaderboard.py --scenario tiny --entries runs/board --page runs/board.md"""


@dataclass(frozen=True, slots=True)
class Line:
    """A method on a scenario.

    Attributes:
        method: As its author has it.
        entry: Name of the entry.
        over_ccar: Share of CO2 saved.
        over_faircarbon: Likewise.
        seeds: Rows of each seed.
        broken: Constraints that are not kept.
    """

    method: Method
    entry: str
    over_ccar: Estimate
    over_faircarbon: Estimate
    seeds: Sequence[Sequence[Row]]
    broken: Sequence[str]

    def mean(self, figure: str) -> float:
        """A figure over all turns, mean over seeds."""
        return fmean(getattr(rows[-1], figure) for rows in self.seeds)

    def saved(self) -> tuple[str, str]:
        """Over ccar and over faircarbon, %; 0 of itself."""
        of = {CCAR: self.over_ccar, FAIRCARBON: self.over_faircarbon}
        ccar, faircarbon = (
            "0" if self.method.policies == (name,) else percent(value) for name, value in of.items()
        )
        return ccar, faircarbon

    def cells(self) -> list[str]:
        """What the table says after the name."""
        quality = (number(self.mean(f"quality_{kind}"), 3) for kind in ("predicted", "realised"))
        return [
            *self.saved(),
            " / ".join(quality),
            number(self.mean("ttft_p95_s")),
            " / ".join(share(self.mean(rate), 2) for rate in RATES.values()),
            str(len(self.seeds)),
        ]


def page(board: Sequence[Submission], scenarios: Sequence[str] = SCENARIOS) -> str:
    """The whole page.

    Args:
        board: Of `read_board`.
        scenarios: Of the board.
    """
    parts = [INTRODUCTION, RULES, "## The board", READING]
    parts += [part for scenario in scenarios for part in _scenario(board, scenario)]
    newest = max(board, key=lambda submission: submission.entry.date).entry
    submit = SUBMIT.replace("{version}", newest.version).replace("{commit}", newest.commit[:7])
    parts += [_entries(board), submit]
    return "\n\n".join(parts) + "\n"


def under_a_budget(scenario: str) -> bool:
    """Whether a scenario asks for a mean of quality."""
    return load_scenario(scenario).bounds.quality_constraint == "budget"


def lines_of(board: Iterable[Submission], scenario: str) -> list[Line]:
    """All methods of a scenario, the largest saving over ccar first."""
    budget = under_a_budget(scenario)
    found = []
    for submission in board:
        for method in submission.entry.methods:
            seeds = submission.seeds(method, scenario)
            if not seeds:
                continue
            ccar, faircarbon = (submission.rows[scenario, name] for name in (CCAR, FAIRCARBON))
            broken = [name for rows in seeds for name in broken_by(rows, ccar, budget)]
            saved = saving(seeds, ccar), saving(seeds, faircarbon)
            name = submission.folder.name
            found.append(Line(method, name, *saved, seeds, list(dict.fromkeys(broken))))
    return sorted(found, key=lambda line: -(line.over_ccar["mean"] or 0.0))


def saving(seeds: Sequence[Sequence[Row]], reference: Sequence[Row]) -> Estimate:
    """Share of a reference's CO2 that is saved: of the mean over seeds, mean over fleets."""
    ours = np.array([[row.co2_g for row in rows[:-1]] for rows in seeds]).mean(axis=0)
    return over_fleets(1.0 - ours / np.array([row.co2_g for row in reference[:-1]]))


def broken_by(rows: Sequence[Row], ccar: Sequence[Row], budget: bool) -> list[str]:
    """Constraints that a policy does not keep.

    Args:
        rows: The policy's, of each fleet and of all.
        ccar: Those of `ccar` on the same fleets.
        budget: Whether the scenario asks for a mean of quality.
    """
    broken = [
        name
        for name, rate in RATES.items()
        if getattr(rows[-1], rate) > getattr(ccar[-1], rate) + TOLERANCE
    ]
    if budget:
        pairs = zip(rows[:-1], ccar[:-1], strict=True)
        gained = over_fleets([mine.quality_realised - its.quality_realised for mine, its in pairs])
        high = gained["high"]
        broken += [MEAN_QUALITY] if high is not None and high < 0 else []
    return broken


def _scenario(board: Sequence[Submission], scenario: str) -> list[str]:
    lines = lines_of(board, scenario)
    if not lines:
        return []
    routers = [line for line in lines if not line.method.bound]
    ranked = [line for line in routers if not line.broken]
    apart = [line for line in routers if line.broken]
    header = (
        *("policy", "entry", "saved over `ccar`, %", "over `faircarbon`, %", "quality"),
        *("P95 TTFT s", "violations, %", "seeds"),
    )
    description = load_scenario(scenario).description
    parts = [f"### {scenario}", f"{description[0].upper()}{description[1:]}."]
    if ranked:
        rows = [
            (rank, *_name(line), *line.cells())
            for rank, line in zip(_ranks(ranked), ranked, strict=True)
        ]
        parts.append(table(("rank", *header), rows, words=3))
    if apart:
        rows = [(", ".join(line.broken), *_name(line), *line.cells()) for line in apart]
        parts += ["Not ranked, for they break a constraint:"]
        parts.append(table(("broken", *header), rows, words=3))
    bounds = [_bound(line) for line in lines if line.method.bound]
    if bounds:
        said = "Bounds, which are given what no router has"
        if under_a_budget(scenario):
            said += " (they keep to the filter per query; what uses the budget may save more)"
        parts += [f"{said}:", "\n".join(bounds)]
    return parts


def _name(line: Line) -> tuple[str, str]:
    return f"`{line.method.name}`", line.entry


def _bound(line: Line) -> str:
    ccar, faircarbon = line.saved()
    note = f": {line.method.note}" if line.method.note else ""
    return (
        f"- `{line.method.name}` saves {ccar} % over `ccar` and {faircarbon} % over "
        f"`faircarbon`{note}."
    )


def _ranks(lines: Sequence[Line]) -> list[str]:
    """1, 2, 2, 4: equal savings share a rank."""
    ranks: list[int] = []
    for place in range(len(lines)):
        means = [lines[k].over_ccar["mean"] or 0.0 for k in (place - 1, place)] if place else []
        same = bool(means) and math.isclose(*means, abs_tol=1e-9)
        ranks.append(ranks[-1] if same else place + 1)
    return [str(rank) for rank in ranks]


def _entries(board: Sequence[Submission]) -> str:
    parts = ["## The entries"]
    for submission in board:
        entry = submission.entry
        parts += [
            f"### {submission.folder.name}",
            f"{', '.join(entry.authors)}, {entry.date.isoformat()}; carbon-gym {entry.version}, "
            f"commit {entry.commit[:7]}.",
            "\n".join(f"- `{command}`" for command in entry.commands),
            table(
                ("policy", "learned on", "code", "what it is"),
                [
                    (
                        f"`{method.name}`",
                        ", ".join(method.learned_on) or "nothing",
                        _link(method.code),
                        method.note,
                    )
                    for method in entry.methods
                ],
                words=4,
            ),
        ]
    return "\n\n".join(parts)


def _link(code: str) -> str:
    return f"[{code.rstrip('/').rpartition('/')[2]}]({code})"
