"""Draws docs/images/packages.svg and walk.svg: `python docs/make_architecture.py`.

The packages and their layers are read from the import contract in pyproject.toml, their subjects from the first
sentence of each docstring, so that the picture cannot say anything else than the code.
"""

import ast
import re
import textwrap
import tomllib
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
IMAGES: Final = ROOT / "docs" / "images"
WIDTH: Final = 1000
GAP: Final = 8
LINE: Final = 15  # from one line of text to the next
STYLE: Final = (
    "<style>text{font:12px system-ui,sans-serif;fill:#222}.name{font-weight:600;font-size:14px}.file{font-family:"
    "ui-monospace,monospace;font-size:11.5px;fill:#555}rect{fill:#eef0fb;stroke:#5c6bc0}path{stroke:#5c6bc0;fill:none}"
    ".kept{fill:#fdf3ec;stroke:#d9824b}.page{fill:#fff;stroke:none}</style>"
)

# Steps of a comparison: name, where the code is, what happens, what is kept in the folder of the run.
WALK: Final = (
    (
        "assemble",
        "comparing/prepare.py, assemble.py, preflight.py",
        "Config, model and data become a Setup; two rows are tried.",
        "plan.toml (the runner writes it)",
    ),
    (
        "label",
        "comparing/runner.py, run_inputs.py",
        "The teacher answers the rows of every split.",
        "classroom/rows-KEY.parquet",
    ),
    (
        "explain",
        "comparing/explanations.py, explaining/",
        "Every method explains the rows that students learn from.",
        "explanations/METHOD-KEY.parquet",
    ),
    (
        "train",
        "comparing/grid.py, training.py, execution/",
        "One job for each row of the table, student, size and seed.",
        "cells/KEY.json, cells/KEY.parquet",
    ),
    (
        "summarise",
        "comparing/summarise.py, stats/",
        "Answers to test rows become simulability, gains and claims.",
        "comparison.json, results.parquet",
    ),
    (
        "evaluate",
        "comparing/evaluation.py, metrics/",
        "Other metrics are computed on some test rows.",
        "measured/, measured.json",
    ),
    (
        "report",
        "reports/build.py",
        "The folder becomes one page; no model is asked.",
        "report.html",
    ),
)


def layers() -> list[list[str]]:
    """The packages, highest layer first, as the import contract orders them; single modules are left out."""
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    names = [re.findall(r"\w+", layer) for layer in contract["contracts"][0]["layers"]]
    packages = [[name for name in layer if (ROOT / "src" / "didact" / name).is_dir()] for layer in names]
    return [layer for layer in packages if layer]


def subject(package: str) -> str:
    """The first sentence of a package's docstring."""
    source = (ROOT / "src" / "didact" / package / "__init__.py").read_text(encoding="utf-8")
    said = ast.get_docstring(ast.parse(source)) or ""
    return " ".join(said.split()).split(". ")[0].removesuffix(".")


def box(x: float, y: float, width: float, height: float, lines: Sequence[tuple[str, str]], kind: str = "") -> str:
    """A rectangle with lines of text, each with its class."""
    rect = f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="5"/>'
    texts = [
        f'<text class="{style}" x="{x + 9:g}" y="{y + 4 + LINE * (place + 1):g}">{escape(line)}</text>'
        for place, (style, line) in enumerate(lines)
    ]
    return "\n".join([rect, *texts])


def page(height: float, title: str, parts: Iterator[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" role="img"><title>{title}</title>'
    back = f'<rect class="page" width="{WIDTH}" height="{height:g}"/>'
    return "\n".join([head, STYLE, back, *parts, "</svg>", ""])


def packages_picture() -> str:
    parts, y = [], float(GAP)
    for layer in layers():
        width = (WIDTH - GAP * (len(layer) + 1)) / len(layer)
        texts = [textwrap.wrap(subject(name), max(20, int(width / 6.6))) for name in layer]
        height = LINE * (1 + max(map(len, texts))) + 12
        for place, (name, lines) in enumerate(zip(layer, texts, strict=True)):
            x = GAP + place * (width + GAP)
            parts.append(box(x, y, width, height, [("name", name), *(("", line) for line in lines)]))
        y += height + GAP
    return page(y, "The packages of didact in layers: each imports only from those below", iter(parts))


def walk_picture() -> str:
    height, kept = LINE * 3 + 12, 270
    parts = []
    for place, (name, code, what, file) in enumerate(WALK):
        y, x = GAP + place * (height + 20), WIDTH - kept - GAP
        parts.append(box(GAP, y, x - 60, height, [("name", name), ("", what), ("file", code)]))
        parts.append(box(x, y + 9, kept, LINE * 2 + 12, [("file", line) for line in file.split(", ")], "kept"))
        middle = y + height / 2
        parts.append(f'<path d="M{x - 52} {middle:g}H{x - 6}m-6 -4l6 4l-6 4"/>')
        if place:
            parts.append(f'<path d="M200 {y - 20:g}v16m-4 -6l4 6l4 -6"/>')
    return page(GAP + len(WALK) * (height + 20), "The walk of data through compare", iter(parts))


if __name__ == "__main__":
    (IMAGES / "packages.svg").write_text(packages_picture(), encoding="utf-8")
    (IMAGES / "walk.svg").write_text(walk_picture(), encoding="utf-8")
