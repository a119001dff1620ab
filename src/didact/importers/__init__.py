"""Import of explanations by other tools: tokens and scores, aligned with the characters of the texts.

No torch and no pickle in this package. Each format has one file (`eraser.py`, `inseq.py`, `jsonl.py`, `arrays.py`,
`shap.py`, `captum.py`) whose `read` returns the rows of `parsed.py`. `files.py` reads JSON and NumPy files, `detect.py`
detects the format, `align.py` finds the characters of each token, and `align_rows.py` matches the rows with the data
and reports all faults at once. To add a format: write a file with `read`, add a line to `FORMATS`, and detect it in
`detect.py`.
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
