"""The documentation as a site: ``sphinx-build -W --keep-going -b html docs build/docs``.

Pages are the Markdown files of this folder, as GitHub shows them too. The programs and JSON files
beside them make pages and are none.
"""

from __future__ import annotations

import re
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))  # the checkout that the pages are of

import carbon_gym  # noqa: E402
from carbon_gym.scenario.section import Section  # noqa: E402

project = "carbon_gym"
author = "The carbon_gym developers"
copyright = author
version = release = carbon_gym.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
exclude_patterns = ["*_conclusions.md"]  # parts of pages
html_theme = "furo"
html_title = f"carbon_gym {release}"
html_show_copyright = False

myst_heading_anchors = 4  # as GitHub has them: page.md#heading
suppress_warnings = ["misc.highlighting_failure"]  # JSON Lines are no JSON

autodoc_mock_imports = [] if find_spec("stable_baselines3") else ["stable_baselines3"]
default_role = "py:obj"  # single backquotes are names; those that are none stay as they are
add_module_names = False
autodoc_default_options = {
    "members": True,
    "member-order": "bysource",
    "exclude-members": "model_config",
}
autodoc_typehints_format = "short"
autodoc_class_signature = "mixed"
python_use_unqualified_type_names = True
napoleon_use_ivar = True

linkcheck_timeout = 20
linkcheck_workers = 2


LINK = re.compile(r"\[([^\]\n]*)\]\(([^)#\s]+)\)")
ENTRY = re.compile(r"[a-z][a-z-]*(/README)?")
NO_COLON = "\ue000"


def _prepare(app: Any, page: str, source: list[str]) -> None:
    """Links to what GitHub shows and the site has no page of; entries of the index without one."""
    here = (HERE / page).parent
    text = LINK.sub(lambda link: _link(here, *link.groups()), source[0])
    if page == "index":
        lines = text.split("\n")
        lines = [it for it in lines if not ENTRY.fullmatch(it) or (HERE / f"{it}.md").is_file()]
        text = "\n".join(lines)
    source[0] = text


def _link(here: Path, said: str, target: str) -> str:
    """A folder's page is its README; Markdown outside of docs/ is a download."""
    place = (here / target).resolve()
    if place.is_dir() and (place / "README.md").is_file():
        return f"[{said}]({target.rstrip('/')}/README.md)"
    if place.is_dir():
        return said
    outside = place.suffix == ".md" and not place.is_relative_to(HERE)
    return f"[{said}]({'path:' if outside else ''}{target})"


def _before(app: Any, what: str, name: str, it: Any, options: Any, lines: list[str]) -> None:
    """What Napoleon should not see."""
    if any(line.startswith("## ") for line in lines):  # an environment: Markdown, and a page
        lines[1:] = ["", "Spaces, reward, mask and ``info``: :doc:`environment`.", ""]
    returns = False
    for number, line in enumerate(lines):  # it would take what stands before a colon for a type
        if returns or what in ("attribute", "data"):
            lines[number] = line.replace(":", NO_COLON)
        returns = line == "Returns:" or (returns and line.startswith(" "))


def _after(app: Any, what: str, name: str, it: Any, options: Any, lines: list[str]) -> None:
    lines[:] = [line.replace(NO_COLON, ":") for line in lines]
    if what == "attribute":
        lines += _default(name)


def _default(name: str) -> list[str]:
    """What stands below a field of a scenario's section: its default, if it is short."""
    owner, _, field = name.rpartition(".")
    module, _, kind = owner.rpartition(".")
    section = getattr(sys.modules.get(module), kind, None)
    if not (isinstance(section, type) and issubclass(section, Section)):
        return []
    found = section.model_fields.get(field)
    if found is None or found.is_required() or isinstance(found.default, Section):
        return []
    return ["", f"Default: ``{found.default!r}``", ""]


def _signature(app: Any, what: str, name: str, it: Any, *rest: Any) -> tuple[str, None] | None:
    """Sections of a scenario are made from files; their fields stand below."""
    return ("", None) if what == "class" and issubclass(it, Section) else None


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("source-read", _prepare)
    app.connect("autodoc-process-docstring", _before, priority=100)
    app.connect("autodoc-process-docstring", _after, priority=900)
    app.connect("autodoc-process-signature", _signature)
