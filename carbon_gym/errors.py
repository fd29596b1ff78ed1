"""Errors that a user can cause: one sentence with the place, the finding and the fix."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class InputError(ValueError):
    """Something that the user gave cannot be used.

    The message is one sentence that names the file, row or key, says what was found, what is
    allowed, and how to mend it. The command line prints it and exits with code 2.
    """


class InstallationError(ImportError):
    """A package that should be ours, or an optional extra, is missing or shadowed."""


def did_you_mean(given: object, known: Iterable[object]) -> str:
    """``"did you mean 'name'? "`` with the nearest of what is known; "" if nothing is near."""
    near = difflib.get_close_matches(str(given), [str(name) for name in known], n=1, cutoff=0.4)
    return f"did you mean {near[0]!r}? " if near else ""
