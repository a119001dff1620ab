"""The default sets, all 18,400 rows of each."""

import json
import subprocess
import sys

import numpy as np
import pytest

from didact.data import DATASETS

# In an interpreter of its own: checking every annotation of every draw would take minutes.
SCRIPT = """
import json, sys, time
from didact.core.human import HumanTeacher
from didact.data import DATASETS

began = time.process_time()
data = DATASETS.load(f"planted/{sys.argv[1]}")()
seconds = time.process_time() - began
rows = [row for split in data.values() for row in split]
given, gold = data.oracle().predict(rows), HumanTeacher(data.task, data.classes).predict(rows)
right = (given.labels == gold.labels) if data.task.has_classes else (given.values == gold.values).all(axis=1)
# What a reading model must tell apart is the sentence that answers.
kind = lambda row: row.texts[1][: row.label[0].start].count(".") if isinstance(row.label, tuple) else row.label
print(json.dumps({
    "sizes": {name: len(split) for name, split in data.items()},
    "different": len({row.content for row in rows}),
    "wrong by rationale": [row.id for row in rows if row.label is None or data.label_from(row) != row.label],
    "wrong by oracle": int((~right).sum()),
    "first and last": [data["test"][0].id, data["test"][-1].id],
    "labels": [kind(row) for row in rows],
    "seconds": seconds,
}))
"""


TASKS = [name.removeprefix("planted/") for name in DATASETS if name.startswith("planted/")]


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.slow
def test_every_row_of_the_default_set(task):
    done = subprocess.run([sys.executable, "-c", SCRIPT, task], capture_output=True, text=True, check=True)
    facts = json.loads(done.stdout)
    assert facts["sizes"] == {"teach": 12_000, "explain": 2_000, "train": 2_000, "dev": 400, "test": 2_000}
    assert facts["different"] == 18_400
    assert facts["wrong by rationale"] == []
    assert facts["wrong by oracle"] == 0
    assert facts["first and last"] == ["test-0", "test-1999"]
    assert facts["seconds"] < 15  # about 1, and 3 for images, on an idle core
    classes, counts = np.unique(facts["labels"], return_counts=True)
    assert len(classes) == {"sentiment": 2, "graded": 2, "inference": 3, "quality": 5, "reading": 3, "shapes": 4}[task]
    np.testing.assert_allclose(counts / 18_400, 1 / len(classes), atol=0.012)
