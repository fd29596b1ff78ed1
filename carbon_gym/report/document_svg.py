"""Figures inside a page: SVG made by matplotlib, with names of its own and colours for the dark."""

from __future__ import annotations

import re
from collections.abc import Iterable
from xml.etree import ElementTree

from carbon_gym.report.document_cells import one_line

DARK_PAPER = (0x15, 0x19, 0x1C)
"""Background of the dark page, RGB."""
_DARK_INK = (0xE4, 0xE8, 0xEA)
_LEAST_CONTRAST = 3.5
"""Of a line or bar against the dark page; WCAG 2 asks 3 of graphics."""
_GREY = 8
"""Largest distance of the channels of a colour that counts as a grey."""
_COLOUR = re.compile(r"\b(fill|stroke): #([0-9a-f]{6})\b")
_NAMED = re.compile(r"var\(--c([0-9a-f]{6}),")
_POINTS_TO = re.compile(r"url\(#([^)]*)\)")

Rgb = tuple[int, int, int]


def inline_svg(text: str, name: str, alternative: str) -> str:
    """An SVG file as an element of a page.

    Args:
        text: As matplotlib writes it.
        name: Of the picture; made a prefix of its identifiers, which are unique in a file only.
        alternative: What it shows, in words.
    """
    root = ElementTree.fromstring(text)
    used = _identifiers_in_use(root)
    # What is written on cells whose colour is a value needs these colours, and their white paper.
    kind = "coloured" if _has_colour_map(root) else "drawn"
    for element in root.iter():
        element.tag = _local(element.tag)
        for key, value in list(element.attrib.items()):
            del element.attrib[key]
            if key != "id":
                value = _renamed(_local(key), value, name)
                if key == "style" and kind == "drawn":
                    # By name, because rules for elements do not reach the copies that <use> makes.
                    value = _COLOUR.sub(r"\1: var(--c\2, #\2)", value)
                element.set(_local(key), value)
            elif value in used:
                element.set(key, f"{name}:{value}")
    for child in list(root):
        # A style sheet inside would apply to the whole page, which has these rules for its figures.
        if child.tag == "metadata" or child.find("style") is not None:
            root.remove(child)
    width_px = float(root.attrib.pop("width").removesuffix("pt")) * 96 / 72
    del root.attrib["height"]
    root.attrib |= {
        "role": "img",
        "aria-label": one_line(alternative),
        "style": f"--width: {width_px:.0f}px",
        "class": kind,
    }
    return ElementTree.tostring(root, encoding="unicode")


def colour_rules(drawings: Iterable[str]) -> str:
    """CSS that says what the colours of the figures are on the light and on the dark page.

    Args:
        drawings: As made by `inline_svg`.
    """
    colours = sorted({found for drawing in drawings for found in _NAMED.findall(drawing)})
    values = "".join(f"--c{c}: light-dark(#{c}, {in_the_dark(f'#{c}')});\n" for c in colours)
    # Where light-dark() is not known, the figures keep the colours that they were drawn in.
    return f"@supports (color: light-dark(#000, #fff)) {{ .drawn {{\n{values}}} }}\n"


def in_the_dark(colour: str) -> str:
    """The counterpart of a colour on the dark page: greys turn round, hues become light enough.

    Args:
        colour: ``#rrggbb``.
    """
    rgb = _rgb(colour)
    if max(rgb) - min(rgb) <= _GREY:
        return _hex(_mixed(_DARK_INK, DARK_PAPER, sum(rgb) / (3 * 255)))
    white = (255, 255, 255)
    steps = (_mixed(rgb, white, step / 20) for step in range(21))
    return _hex(next(one for one in steps if contrast(one, DARK_PAPER) >= _LEAST_CONTRAST))


def contrast(one: Rgb, other: Rgb) -> float:
    """Contrast ratio of two colours after WCAG 2, 1 to 21."""
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def _has_colour_map(root: ElementTree.Element) -> bool:
    """Whether cells carry values as colours."""
    return any(
        _local(element.tag) == "image" or element.get("id", "").startswith("QuadMesh")
        for element in root.iter()
    )


def _identifiers_in_use(root: ElementTree.Element) -> set[str]:
    used: set[str] = set()
    for element in root.iter():
        for key, value in element.attrib.items():
            used.update(_POINTS_TO.findall(value))
            if _local(key) == "href" and value.startswith("#"):
                used.add(value[1:])
    return used


def _renamed(attribute: str, value: str, name: str) -> str:
    if attribute == "href" and value.startswith("#"):
        return f"#{name}:{value[1:]}"
    return _POINTS_TO.sub(lambda found: f"url(#{name}:{found[1]})", value)


def _local(tag: str) -> str:
    return tag.rpartition("}")[2]


def _rgb(colour: str) -> Rgb:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def _hex(rgb: Rgb) -> str:
    return "#" + "".join(f"{channel:02x}" for channel in rgb)


def _mixed(one: Rgb, other: Rgb, share: float) -> Rgb:
    """`share` of the other colour."""
    red, green, blue = (round(a + share * (b - a)) for a, b in zip(one, other, strict=True))
    return red, green, blue


def _luminance(rgb: Rgb) -> float:
    """Relative luminance after WCAG 2, 0 to 1."""
    linear = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in (channel / 255 for channel in rgb)
    )
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
