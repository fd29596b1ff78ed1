"""Makes `docs/results.md` of a report of `carbon-gym reproduce`.

    carbon-gym reproduce --out runs/reproduce
    python docs/results.py runs/reproduce

The page is the report; its tables go to `docs/results/` as CSV, its figures to
`docs/pictures/results/` as PNG. `tests/test_results.py` runs a part of it again.
"""

from __future__ import annotations

import argparse
import re
import shutil
from pathlib import Path

from carbon_gym.files import replacing
from carbon_gym.report.document_markdown import PICTURES, TABLES

HERE = Path(__file__).resolve().parent
PAGE, CSVS, PNGS = "results.md", "results", "pictures/results"
NOTE = (
    "This page is made by `carbon-gym reproduce --out runs/reproduce` and "
    "`python docs/results.py runs/reproduce`; do not edit it."
)


def page(report: str) -> str:
    """The text of a report with its files where the documents have them."""
    title, rest = report.split("\n", 1)
    rest = _with_anchors_of_headings(rest)
    rest = re.sub(r" ?\(\[SVG\]\([^)]*\)\)", "", rest)
    rest = rest.replace(f"]({TABLES}/", f"]({CSVS}/").replace(f"]({PICTURES}/", f"]({PNGS}/")
    return f"{title}\n\n{NOTE}\n{rest}"


def _with_anchors_of_headings(text: str) -> str:
    """A report's own anchors are HTML, which a site does not know: those of its headings."""
    headings = dict(re.findall(r'<a id="([^"]+)"></a>\n\n## (.*)', text))
    text = re.sub(r'<a id="[^"]+"></a>\n\n(?=## )', "", text)
    for name, heading in headings.items():
        slug = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        text = text.replace(f"](#{name})", f"](#{slug})")
    return text


def main(arguments: list[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path, help="folder of carbon-gym reproduce")
    parser.add_argument("--out", type=Path, default=HERE, help="folder of the page")
    options = parser.parse_args(arguments)
    report = (options.run / "report.md").read_text(encoding="utf-8")
    for kind, ending, place in ((TABLES, "csv", CSVS), (PICTURES, "png", PNGS)):
        folder = options.out / place
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for file in sorted((options.run / kind).glob(f"*.{ending}")):
            shutil.copyfile(file, folder / file.name)
    with replacing(options.out / PAGE) as partial:
        partial.write_text(page(report), encoding="utf-8")


if __name__ == "__main__":
    main()
