"""Errors that a user can cause: one sentence with the place, the finding and the fix."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager


class InputError(ValueError):
    """Something that the user gave cannot be used.

    The message is one sentence that names the file, row or key, says what was found, what is
    allowed, and how to mend it. The command line prints it and exits with code 2.
    """


class InstallationError(ImportError):
    """A package that should be ours, or an optional extra, is missing or shadowed."""


_OURS = ("agents", "baselines", "carbon_gym")
_DISTRIBUTIONS = {"sklearn": "scikit-learn"}


@contextmanager
def from_extra(what: str, extra: str = "train", otherwise: str = "") -> Iterator[None]:
    """Around imports of what an optional extra brings: a missing package is said with its fix.

    Args:
        what: What needs it, for the sentence.
        extra: Of the distribution.
        otherwise: What else would do, appended.

    Raises:
        InstallationError: A package that is not ours is missing.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in ("", *_OURS):
            raise
        needed = _DISTRIBUTIONS.get(package, package)
        raise InstallationError(
            f'{what} needs {needed}; run `pip install "carbon-gym[{extra}]"`{otherwise}'
        ) from None


def did_you_mean(given: object, known: Iterable[object]) -> str:
    """``"did you mean 'name'? "`` with the nearest of what is known; "" if nothing is near."""
    near = difflib.get_close_matches(str(given), [str(name) for name in known], n=1, cutoff=0.4)
    return f"did you mean {near[0]!r}? " if near else ""
