"""The command line: `carbon-gym`."""

from __future__ import annotations

import sys


def main() -> None:
    """Entry point: user errors are one sentence on stderr and exit code 2."""
    from carbon_gym.cli.app import app
    from carbon_gym.errors import InputError, InstallationError

    try:
        app()
    except (InputError, InstallationError) as error:
        print(f"carbon-gym: {error}", file=sys.stderr)
        sys.exit(2)
