"""A log of where turns were served: read, carried along with the turns, replayed, refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from inputs import ZONES, turns_of, write_grid

from carbon_gym.benchmark import evaluation_key
from carbon_gym.doors import make_policy, policy_names
from carbon_gym.errors import InputError
from carbon_gym.evaluation import Evaluation, evaluation_fleets
from carbon_gym.fleet import Deployments
from carbon_gym.scenario import Scenario, load_scenario
from carbon_gym.simulator import Simulator
from carbon_gym.simulator.logged import logged_deployments
from carbon_gym.simulator.run import PolicyRun, run_policy
from carbon_gym.workload.readers import read_conversations

TINY = load_scenario("tiny")
NAMES = [Deployments.of(TINY).name(d).replace(" ", "") for d in range(4)]
Where = Callable[[int, int], str]


def somewhere(session: int, turn: int) -> str:
    """A deployment for a turn: changes every second turn."""
    return NAMES[(session + turn // 2) % 4]


def write_log(
    path: Path, sessions: int = 12, where: Where = somewhere, column: str = "served_by"
) -> Path:
    """A tokens file with a log, rows in an odd order."""
    rows = [
        f"s{session},{turn},{prompt},{reply},{where(session, turn)}"
        for session in range(sessions)
        for turn, (prompt, reply) in enumerate(turns_of(session))
    ]
    rows = rows[::2] + rows[1::2]
    head = f"session,turn,prompt_tokens,output_tokens,{column}"
    path.write_text("\n".join([head, *rows]) + "\n", encoding="utf-8")
    return path


def on(path: Path, folder: Path, column: str = "served_by", **changes: Any) -> Scenario:
    """The tiny scenario on a log and a made-up grid."""
    grid = write_grid(folder / "grid.csv", hours=24 * 8, zones=ZONES)
    own = {"source": "file", "path": str(path), "format": "tokens", "log_column": column}
    workload = {**own, **changes.pop("workload", {})}
    where = {"source": "file", "paths": [str(grid)]}
    return load_scenario("tiny", workload=workload, grid=where, **changes)


def replayed(evaluation: Evaluation) -> PolicyRun:
    scenario = evaluation.scenario
    return run_policy(scenario, make_policy("replay", scenario), evaluation.traces, evaluation.grid)


def test_a_log_is_read_turn_by_turn(tmp_path: Path) -> None:
    read = read_conversations(write_log(tmp_path / "log.csv"), "tokens", log_column="served_by")
    assert read.log is not None
    assert len(read.log.code) == read.turns
    for number, name in enumerate(read.session_id):
        session = int(name.removeprefix("s"))
        rows = range(read.offsets[number], read.offsets[number + 1])
        found = [read.log.names[read.log.code[row]] for row in rows]
        assert found == [somewhere(session, turn) for turn in range(len(found))]
    assert read_conversations(tmp_path / "log.csv", "tokens").log is None


@pytest.mark.parametrize("limit", [32_768, 900])
def test_replay_follows_the_log(tmp_path: Path, limit: int) -> None:
    scenario = on(
        write_log(tmp_path / "log.csv"), tmp_path, workload={"context_limit_tokens": limit}
    )
    evaluation = evaluation_fleets(scenario, fleets=2, sessions=7)
    assert any(trace.dropped_turns for trace in evaluation.traces) == (limit == 900)
    run = replayed(evaluation)
    for number, trace in enumerate(evaluation.traces):
        ledger = run.ledger[run.bounds[number] : run.bounds[number + 1]]
        said = [
            somewhere(int(trace.session_id[session].removeprefix("s")), turn)
            for session, turn in zip(trace.session, trace.turn, strict=True)
        ]
        assert [NAMES[d] for d in ledger["deployment"]] == said


def test_the_log_of_a_policy_gives_its_account(tmp_path: Path) -> None:
    path = write_log(tmp_path / "log.csv", sessions=20)
    evaluation = evaluation_fleets(on(path, tmp_path), fleets=1)
    scenario, (trace,) = evaluation.scenario, evaluation.traces
    own = run_policy(scenario, make_policy("ccar", scenario), evaluation.traces, evaluation.grid)
    went = {
        (int(trace.session_id[s].removeprefix("s")), int(t)): NAMES[d]
        for s, t, d in zip(trace.session, trace.turn, own.ledger["deployment"], strict=True)
    }
    write_log(path, sessions=20, where=lambda session, turn: went[session, turn])
    again = replayed(evaluation_fleets(on(path, tmp_path), fleets=1))
    for field in own.ledger.dtype.names or ():
        np.testing.assert_array_equal(again.ledger[field], own.ledger[field])


def test_sessions_as_lanes_have_their_own_log(tmp_path: Path) -> None:
    evaluation = evaluation_fleets(on(write_log(tmp_path / "log.csv"), tmp_path), fleets=1)
    (trace,) = evaluation.traces
    lanes = Simulator(evaluation.scenario, evaluation.traces, evaluation.grid, lanes="sessions")
    order = np.lexsort((trace.turn, trace.session))
    logged = logged_deployments(trace.log, lanes.fleet)
    np.testing.assert_array_equal(lanes.logged(), logged[order])


def test_names_may_have_spaces_as_the_reports_write_them(tmp_path: Path) -> None:
    spaced = write_log(
        tmp_path / "log.csv", where=lambda s, t: f" {somewhere(s, t).replace('@', ' @ ')} "
    )
    log = read_conversations(spaced, "tokens", log_column="served_by").log
    plain = read_conversations(write_log(tmp_path / "b.csv"), "tokens", log_column="served_by").log
    fleet = Deployments.of(TINY)
    np.testing.assert_array_equal(logged_deployments(log, fleet), logged_deployments(plain, fleet))


def test_a_log_is_no_other_experiment_unless_it_is_read(tmp_path: Path) -> None:
    path = write_log(tmp_path / "log.csv")
    scenario = on(path, tmp_path)
    without = load_scenario(scenario, workload={"log_column": None})
    assert scenario.digest() != without.digest()
    key = evaluation_key(evaluation_fleets(scenario, fleets=1))
    write_log(path, where=lambda session, turn: NAMES[0])
    assert evaluation_key(evaluation_fleets(scenario, fleets=1)) != key
    plain = evaluation_key(evaluation_fleets(without, fleets=1))
    write_log(path)
    assert evaluation_key(evaluation_fleets(without, fleets=1)) == plain


def test_replay_is_named_only_where_there_is_a_log(tmp_path: Path) -> None:
    assert "replay" not in policy_names(TINY)
    assert "replay" in policy_names(on(write_log(tmp_path / "log.csv"), tmp_path))
    assert "replay" in policy_names()


# ------------------------------------------------------------------------------- what is refused


def broken(path: Path, old: str, new: str) -> Path:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("", r"log.csv: line 2: served_by is empty; every turn needs the deployment"),
        ("  ", r"log.csv: line 2: served_by is empty"),
        (
            "Llama-3.1-8B-Instruct@H100-80GB@GBR",
            r"log.csv: line 2: served_by 'Llama-3.1-8B-Instruct@H100-80GB@GBR' is no deployment of "
            r"the fleet; did you mean 'Llama-3.1-8B-Instruct@H100-80GB@GB'\?.*regions US-CAL-CISO, "
            r"GB, or give a fleet that has it",
        ),
        ("GB", r"line 2: served_by 'GB' is no deployment.*write model@GPU@region with models"),
        ("3", r"line 2: served_by '3' is no deployment"),
    ],
)
def test_a_turn_without_a_known_place_is_refused(tmp_path: Path, name: str, said: str) -> None:
    path = broken(write_log(tmp_path / "log.csv"), NAMES[0], name)
    with pytest.raises(InputError, match=said):
        replayed(evaluation_fleets(on(path, tmp_path), fleets=1))


@pytest.mark.parametrize(
    ("column", "said"),
    [
        ("served", r"line 1: column 'served' is missing; did you mean to rename 'served_by'\?"),
        ("output_tokens", r"'output_tokens' says what output_tokens is, not where a turn was"),
        ("session_id", r"'session_id' says what session is"),
    ],
)
def test_another_column_is_refused(tmp_path: Path, column: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        evaluation_fleets(on(write_log(tmp_path / "log.csv"), tmp_path, column), fleets=1)


def test_other_formats_have_no_log(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="only the tokens format has a column 'served_by'"):
        read_conversations(tmp_path / "a.json", "sharegpt", log_column="served_by")
    workload = {"source": "file", "path": "a.json", "format": "sharegpt", "log_column": "served_by"}
    for changes in (workload, {"log_column": "served_by"}):
        with pytest.raises(InputError, match="only a file in the tokens format has"):
            load_scenario("tiny", workload=changes)


def test_replay_without_a_log_is_refused() -> None:
    with pytest.raises(InputError, match=r"have none; name its column with workload.log_column"):
        replayed(evaluation_fleets(TINY, fleets=1, sessions=3))
    with pytest.raises(InputError, match="use it with carbon_gym"):
        make_policy("replay").reset(Deployments.of(TINY), 1)
