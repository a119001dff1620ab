"""Explains all rows of a data set shard by shard."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from didact.core.outputs import Outputs
from didact.core.row import Row, fingerprint_of
from didact.errors import ShapeError
from didact.explaining.job import ExplainJob
from didact.explaining.shard_store import Shard, ShardStore
from didact.results.explanations import Explanations
from didact.viz.progress import Progress


@dataclass(eq=False)
class DatasetJob:
    """All rows of a data set, and the job that explains them. `outputs` are the teacher's answers, if known."""

    job: ExplainJob
    rows: Sequence[Row]
    outputs: Outputs | None = None

    def check(self) -> None:
        """Raise errors now that would otherwise come in the middle of the work."""
        if self.outputs is not None and not {row.id for row in self.rows} <= set(self.outputs.ids):
            raise ShapeError("outputs lacks some of the rows to explain. Leave it out to run the teacher.")
        teacher = self.job.teacher
        if len(self.rows) > self.job.shard_rows:  # a single shard is encoded at once, which checks all rows
            teacher.check_rows(self.rows)
        self.job.check(self.rows)
        self.job.check_learned()

    @cached_property
    def answers(self) -> Outputs | None:
        """The outputs of these rows, in the order of the rows."""
        if self.outputs is None:
            return None
        index_of = {row: index for index, row in enumerate(self.outputs.ids)}
        return self.outputs.select(np.array([index_of[row.id] for row in self.rows], dtype=np.int64))

    @cached_property
    def fingerprints(self) -> dict[str, str]:
        """Fingerprints of teacher and rows. A function whose answers are unknown runs once more on each row."""
        teacher, data = self.job.teacher, {"data": fingerprint_of(self.rows)}
        if teacher.is_identified_by_answers:
            return {"teacher": teacher.fingerprint(self.rows, self.answers), **data}
        return self.job.fingerprints | data

    def shards(self) -> Iterator[Shard]:
        size = self.job.shard_rows
        for number, start in enumerate(range(0, len(self.rows), size)):
            indices = np.arange(start, min(start + size, len(self.rows)))
            outputs = None if self.answers is None else self.answers.select(indices)
            yield Shard(number, self.rows[start : start + size], outputs)

    def store(self, path: Path) -> ShardStore:
        """The store that holds finished shards until they become the file `path`."""
        return ShardStore(path, self.job, shard=self.job.shard_rows, teacher=self.fingerprints["teacher"])

    def explain(
        self, store: ShardStore | None = None, *, progress: bool = False, explain_shards: "ExplainShards | None" = None
    ) -> Explanations:
        """Explain all rows, shard by shard. A `store` supplies finished shards and receives new ones.

        `explain_shards` may explain missing shards in other processes; this process explains the rest.
        """
        is_explained = explain_shards is not None and store is not None and explain_shards(self, store, progress)
        with Progress(self.job.title, total=len(self.rows), shown=progress and not is_explained) as bar:
            load_or_explain = self._explain if store is None else store.explain
            shards = [load_or_explain(shard, bar) for shard in self.shards()]
        images = tuple(row.image for row in self.rows if row.image is not None) or None
        return replace(Explanations.joined(shards), fingerprints=self.fingerprints, images=images)

    def _explain(self, shard: Shard, bar: Progress) -> Explanations:
        return self.job.explain(shard.rows, shard.outputs, bar)


# Explains missing shards. False if it explains none. The last argument is `progress`.
ExplainShards = Callable[[DatasetJob, ShardStore, bool], bool]
