"""Explanations that others made: read as tokens and scores, placed in the texts by characters. No torch, no pickle.

One file per format (`eraser.py`, `inseq.py`, `jsonl.py`, `arrays.py`, `shap.py`, `captum.py`) reads `files.py` into
`parsed.py`'s rows; `align.py` finds the characters of foreign tokens, `align_rows.py` ties the rows to the data and
reports all faults at once. To add a format: a file with `read`, a line in `FORMATS`, and in `detect.py` how it is told
from the others.
"""

from typing import Final

from didact.registry import Entry, Registry

FORMATS: Final = Registry(
    "format",
    {
        "eraser": Entry("didact.importers.eraser:read"),
        "inseq": Entry("didact.importers.inseq:read"),
        "jsonl": Entry("didact.importers.jsonl:read"),
        "arrays": Entry("didact.importers.arrays:read"),
        "shap": Entry("didact.importers.shap:read"),
        "captum": Entry("didact.importers.captum:read"),
    },
)
