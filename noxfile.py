"""What needs an environment of its own, or the network: ``nox -s rllib``, ``docs``, ``linkcheck``.

Words after ``--`` go to RLlib's example: ``nox -s rllib -- --steps 200000``.
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


@nox.session
def docs(session: nox.Session) -> None:
    """The documentation as a site, in build/docs."""
    session.install("-e", ".[docs]")
    session.run("sphinx-build", "-W", "--keep-going", "-b", "html", "docs", "build/docs")


@nox.session
def linkcheck(session: nox.Session) -> None:
    """Whether links of the documentation to other sites still lead somewhere."""
    session.install("-e", ".[docs]")
    session.run("sphinx-build", "-b", "linkcheck", "docs", "build/linkcheck")
