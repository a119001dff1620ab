"""Explanations that others made: read as tokens and scores, placed in the texts by characters. No torch, no pickle.

One file per format (`eraser.py`, `inseq.py`, `thermostat.py`, `arrays.py`, `shap.py`, `captum.py`) turns a source into
`given.py`'s rows; `align.py` finds the characters of foreign tokens, `place.py` ties the rows to the data and reports
all faults at once. To add a format: a file with `read`, a line in `FORMATS`, and in `find.py` how it is told from the
others.
"""

from typing import Final

from didact.registry import Entry, Registry

FORMATS: Final = Registry(
    "format",
    {
        "eraser": Entry("didact.records.foreign.eraser:read"),
        "inseq": Entry("didact.records.foreign.inseq:read"),
        "thermostat": Entry("didact.records.foreign.thermostat:read"),
        "arrays": Entry("didact.records.foreign.arrays:read"),
        "shap": Entry("didact.records.foreign.shap:read"),
        "captum": Entry("didact.records.foreign.captum:read"),
    },
)
