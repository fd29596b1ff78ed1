"""RLlib's example in an environment of its own: ``nox -s rllib``.

Words after ``--`` go to the example: ``nox -s rllib -- --steps 200000``.
"""

import nox

nox.options.sessions = []
EXAMPLE = "rllib_masked"
QUICK = ("--scenario", "tiny", "--steps", "1024")


@nox.session
def rllib(session: nox.Session) -> None:
    """RLlib with two workers; it pins Gymnasium 1.2.2."""
    session.install("torch==2.13.0")  # first: else pip may take a GPU build of several GB
    session.install("-e", ".", "ray[rllib]>=2.60")
    session.run("python", f"docs/examples/{EXAMPLE}.py", *(session.posargs or QUICK))
