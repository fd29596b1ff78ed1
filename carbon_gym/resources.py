"""Packaged configs and statistics, found from a checkout, an editable install and a wheel."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def configs_root() -> Path:
    """Folder of the packaged configs.

    A wheel carries them inside the package (``carbon_gym/_configs``); a checkout and an editable
    install have them beside it (``configs``).

    Raises:
        FileNotFoundError: If neither is there, i.e. the installation is damaged.
    """
    for candidate in (_PACKAGE / "_configs", _PACKAGE.parent / "configs"):
        if (candidate / "scenarios").is_dir():
            return candidate
    raise FileNotFoundError(
        "the packaged configs of carbon-gym are missing; reinstall with "
        "`pip install --force-reinstall carbon-gym`"
    )


def packaged(relative: str) -> Path:
    """Path of a packaged file, e.g. ``packaged("scenarios/sharegpt.yaml")``; it may not exist."""
    return configs_root() / relative


def packaged_names(folder: str, suffix: str) -> list[str]:
    """Sorted names (without suffix) of the packaged files of one folder."""
    return sorted(path.name.removesuffix(suffix) for path in packaged(folder).glob(f"*{suffix}"))
