"""Errors that a user can cause: one sentence with the place, the finding and the fix."""

from __future__ import annotations


class InputError(ValueError):
    """Something that the user gave cannot be used.

    The message is one sentence that names the file, row or key, says what was found, what is
    allowed, and how to mend it. The command line prints it and exits with code 2.
    """


class InstallationError(ImportError):
    """A package that should be ours, or an optional extra, is missing or shadowed."""
