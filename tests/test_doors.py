"""The public doors: light to import, clear about what they know and whose packages they found."""

from __future__ import annotations

import importlib.machinery
import os
import subprocess
import sys
from pathlib import Path

import pytest
from worlds import POLICY_NAMES

import baselines
import carbon_gym
from carbon_gym.doors import our_package
from carbon_gym.errors import InputError, InstallationError
from carbon_gym.policy import Policy

HEAVY = ("torch", "stable_baselines3", "sklearn", "pandas", "matplotlib", "numba")


def python(code: str, *flags: str, first_on_path: Path | None = None) -> tuple[int, str]:
    """Exit code and all output of a fresh interpreter."""
    root = Path(carbon_gym.__file__).parents[1]
    paths = [str(path) for path in (first_on_path, root) if path is not None]
    done = subprocess.run(
        [sys.executable, "-P", *flags, "-c", code],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    return done.returncode, done.stdout + done.stderr


# ---------------------------------------------------------------------------------- policies


@pytest.mark.parametrize("name", POLICY_NAMES)
def test_a_policy_can_be_made_under_its_name(name: str) -> None:
    assert name in carbon_gym.policy_names()
    policy = carbon_gym.make_policy(name)
    assert isinstance(policy, Policy)
    assert policy.name == name
    assert carbon_gym.make_policy(name) is not policy, "every run gets its own"


def test_options_go_to_the_policy() -> None:
    assert carbon_gym.make_policy("ccar-no-gate").pricing
    assert not carbon_gym.make_policy("ccar-no-gate", pricing=False).pricing
    assert not carbon_gym.make_policy("ccar-no-pricing").pricing
    assert carbon_gym.make_policy("ccar-no-pricing").gate is not None
    assert carbon_gym.make_policy("ccar-no-pricing", gate=None).gate is None


@pytest.mark.parametrize(
    ("wrong", "near"),
    [("faircarbn", "faircarbon"), ("sesion-afinity", "session-affinity"), ("bound", "lower-bound")],
)
def test_an_unknown_policy_names_the_nearest(wrong: str, near: str) -> None:
    with pytest.raises(InputError) as caught:
        carbon_gym.make_policy(wrong)
    message = str(caught.value)
    assert f"policy {wrong!r} is not known; did you mean {near!r}?" in message
    assert all(name in message for name in carbon_gym.policy_names())


def test_a_policy_like_no_other_is_refused_without_a_guess() -> None:
    with pytest.raises(InputError, match=r"policy '§§' is not known; use one of session-affinity"):
        carbon_gym.make_policy("§§")


@pytest.mark.parametrize(
    ("name", "options"), [("ccar-no-gate", {"pricng": True}), ("faircarbon", {"epsilon": 0.1})]
)
def test_an_option_that_a_policy_does_not_take_is_refused(
    name: str, options: dict[str, object]
) -> None:
    with pytest.raises(InputError, match=f"policy {name!r} does not take these options: "):
        carbon_gym.make_policy(name, **options)


# ---------------------------------------------------------------------------------- packages


def test_our_own_packages_are_recognised() -> None:
    assert our_package("baselines") is baselines
    assert our_package("agents").__name__ == "agents"


@pytest.mark.parametrize("file", ["baselines/__init__.py", "baselines.py"])
def test_a_foreign_package_of_the_same_name_is_told_apart(file: str, tmp_path: Path) -> None:
    foreign = tmp_path / file
    foreign.parent.mkdir(exist_ok=True)
    foreign.write_text("POLICIES = {}\n")
    code = (
        "import carbon_gym\n"
        "from carbon_gym.errors import InstallationError\n"
        "for door in (carbon_gym.policy_names, lambda: carbon_gym.make_policy('faircarbon')):\n"
        "    try:\n"
        "        door()\n"
        "    except InstallationError as error:\n"
        "        print('refused:', error)\n"
    )
    status, said = python(code, first_on_path=tmp_path)
    assert status == 0, said
    refusals = [line for line in said.splitlines() if line.startswith("refused:")]
    assert len(refusals) == 2
    for line in refusals:
        assert f"import baselines found {foreign}, which is not carbon_gym's 'baselines'" in line
        assert "pip install --force-reinstall --no-deps carbon-gym" in line


def test_a_folder_that_is_no_package_is_not_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "agents").mkdir()
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.delitem(sys.modules, "agents", raising=False)
    # An editable install is found by a finder of its own, which a namespace package never beats.
    monkeypatch.setattr(sys, "meta_path", [importlib.machinery.PathFinder])
    with pytest.raises(InstallationError, match=f"import agents found {tmp_path}"):
        our_package("agents")
    sys.modules.pop("agents", None)


def test_a_missing_package_is_said_to_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "baselines", None)
    with pytest.raises(InstallationError, match="'baselines' that comes with carbon-gym is miss"):
        our_package("baselines")


def test_a_package_of_ours_that_lacks_something_says_what(tmp_path: Path) -> None:
    (tmp_path / "baselines").mkdir()
    (tmp_path / "baselines" / "__init__.py").write_text("import no_such_module_of_anybody\n")
    status, said = python("import carbon_gym; carbon_gym.policy_names()", first_on_path=tmp_path)
    assert status != 0
    assert "no_such_module_of_anybody" in said


# ------------------------------------------------------------------------------------ import


def test_importing_is_silent_and_light() -> None:
    code = (
        "import sys, carbon_gym\n"
        "import carbon_gym as again\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules])\n"
    )
    assert python(code, "-W", "error") == (0, "[]\n")
    assert python("import carbon_gym", "-W", "error") == (0, "")


def test_naming_a_scenario_loads_none_of_the_training_packages() -> None:
    code = (
        "import sys, carbon_gym\n"
        "carbon_gym.load_scenario('tiny'); carbon_gym.scenario_names()\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules])\n"
    )
    assert python(code, "-W", "error") == (0, "[]\n")


def test_what_the_package_shows() -> None:
    shown = dir(carbon_gym)
    assert set(carbon_gym.__all__) <= set(shown)
    assert shown == sorted(shown)
    for name in carbon_gym.__all__:
        assert callable(getattr(carbon_gym, name))
    with pytest.raises(AttributeError, match="module 'carbon_gym' has no attribute 'make_polcy'"):
        carbon_gym.make_polcy  # noqa: B018
    assert not hasattr(carbon_gym, "nothing")
    assert carbon_gym.__version__[0].isdigit()
