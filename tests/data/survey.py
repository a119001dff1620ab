"""Facts about real sets as JSON: `python survey.py FOLDER NAME …`. Run by test_real_sets.py."""

import json
import sys

from didact.core.dataset import Dataset
from didact.data.load import load_data

OURS = ("teach", "train", "dev", "test")


def facts(data: Dataset) -> dict[str, object]:
    contents = [{row.content for row in data[split]} for split in OURS]
    ids = [row.id for split in OURS for row in data[split]]
    has_classes = data.classes is not None
    return {
        "sizes": {split: len(rows) for split, rows in data.items()},
        "explain_is_teach": data["explain"].ids == data["teach"].ids,
        "fingerprint": data.fingerprint,
        "rows_in_two_splits": sum(map(len, contents)) - len(set.union(*contents)),
        "ids_used_twice": len(ids) - len(set(ids)),
        "classes": data.classes,
        "labels": {split: len({row.label for row in rows}) for split, rows in data.items()} if has_classes else {},
        "test_labels": [row.label for row in data["test"]] if has_classes else [],
        "notes": data.notes,
        "has_rationales": data.has_rationales,
        "has_line_breaks": any("<br" in text for rows in data.values() for row in rows for text in row.texts),
        "parted": [parted(data, segment) for segment in range(len(data.segments))],
    }


def parted(data: Dataset, segment: int) -> int:
    """How many texts of this segment are in more than one of teach, train and dev."""
    seen = [{row.texts[segment] for row in data[split]} for split in ("teach", "train", "dev")]
    return sum(map(len, seen)) - len(set.union(*seen))


if __name__ == "__main__":
    folder, *names = sys.argv[1:]
    json.dump({name: facts(load_data(name, data_dir=folder)) for name in names}, sys.stdout)
