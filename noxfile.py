"""Examples whose packages want an environment of their own: ``nox -s rllib``, ``nox -s torchrl``.

Words after ``--`` go to the example: ``nox -s rllib -- --steps 200000``.
"""

import nox

nox.options.sessions = []
QUICK = ("--scenario", "tiny", "--steps", "1024")


def run_example(session: nox.Session, name: str, *packages: str) -> None:
    """Install the checkout with an example's packages, and run the example."""
    session.install("torch==2.13.0")  # first: else pip may take a GPU build of several GB
    session.install("-e", ".", *packages)
    session.run("python", f"docs/examples/{name}.py", *(session.posargs or QUICK))


@nox.session
def rllib(session: nox.Session) -> None:
    """RLlib with two workers; it pins Gymnasium 1.2.2."""
    run_example(session, "rllib_masked", "ray[rllib]>=2.60")


@nox.session
def torchrl(session: nox.Session) -> None:
    """TorchRL."""
    run_example(session, "torchrl_loop", "torchrl>=0.14")
