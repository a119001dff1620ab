"""Reading: the answer to a question is a span of a passage (extractive question answering)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

import numpy as np
from jaxtyping import Float

from didact.core.measure import token_f1
from didact.core.outputs import Outputs
from didact.core.row import Row
from didact.core.tasks import columns
from didact.core.tasks.base import Task, Texts, Values
from didact.core.words import touches
from didact.errors import DataError

if TYPE_CHECKING:
    from jaxtyping import Bool
    from torch import Tensor

    from didact.core.batch import Batch
    from didact.core.target import Scale, Target
    from didact.core.tasks.base import Logits, TrainingTargets

_IGNORED: Final = -100  # training target of a truncated answer, which the loss ignores


class Reading(Task):
    """Logits are a start and an end per token; values are start and end (exclusive) of the answer in characters."""

    measure: ClassVar[str] = "f1"
    has_classes: ClassVar[bool] = False
    is_per_token: ClassVar[bool] = True
    has_alignments: ClassVar[bool] = True
    grouped_by: ClassVar[int | None] = 1
    head: ClassVar[str] = "ForQuestionAnswering"
    truncation: ClassVar[bool | str] = "only_second"
    content_name: ClassVar[str] = "passage"
    about: ClassVar[str] = "reads a question and a passage, and copies its answer from the passage"
    example: ClassVar[tuple[str, str]] = ("the visitors", "the match")
    label_kind: ClassVar[Literal["class", "score", "answers"]] = "answers"
    label_columns: ClassVar[tuple[str, ...]] = columns.ANSWERS
    input_columns: ClassVar[tuple[tuple[str, ...], ...]] = tuple(("question", name) for name in columns.PASSAGES)

    def width(self, classes: Sequence[str] | None) -> int:  # noqa: ARG002
        return 2

    def content(self, batch: "Batch") -> "Bool[Tensor, 'batch token']":
        return batch.units & (batch.segments == 1)

    def token_logits(self, logits: "Float[Tensor, 'batch token output']", batch: "Batch") -> "Logits":
        """Start and end logits, minus infinity outside the passage."""
        return logits.transpose(1, 2).masked_fill(~self.content(batch)[:, None], float("-inf"))

    def head_logits(self, output: Any) -> "Tensor":
        import torch

        return torch.stack([output.start_logits, output.end_logits], -1)

    def decode(self, logits: "Logits", batch: "Batch") -> Values:
        import torch

        from didact.core.target import best_span

        starts, ends = best_span(logits)
        rows, offsets = torch.arange(len(batch)), batch.offsets.to(logits.device)
        return torch.stack([offsets[rows, starts, 0], offsets[rows, ends, 1]], -1).cpu().double().numpy()

    def answer_texts(self, rows: Sequence[Row], values: Values) -> Texts | None:
        return tuple((row.texts[1][int(start) : int(end)],) for row, (start, end) in zip(rows, values, strict=True))

    def format_answers(self, outputs: Outputs, classes: Sequence[str] | None) -> list[str]:
        if outputs.answers is None:
            return super().format_answers(outputs, classes)
        return [texts[0] for texts in outputs.answers]

    def training_targets(self, outputs: Outputs, batch: "Batch", *, soft: bool = False) -> "TrainingTargets":  # noqa: ARG002
        """The first and last token of each answer; ignored if the answer was truncated."""
        import torch

        tokens = torch.full((len(outputs), 2), _IGNORED, dtype=torch.long)
        segments, offsets = batch.segments.cpu().numpy(), batch.offsets.cpu().numpy()
        for index, span in enumerate(outputs.spans):
            inside = np.flatnonzero(touches([span], segments[index], offsets[index]))
            if len(inside):
                tokens[index] = torch.tensor([inside[0], inside[-1]])
        return tokens

    def loss(self, logits: "Logits", targets: "TrainingTargets") -> "Float[Tensor, ' batch']":
        """The mean cross-entropy of start and end."""
        import torch
        from torch.nn.functional import cross_entropy

        ends = (0, 1)
        losses = [
            cross_entropy(logits[:, end], targets[:, end], reduction="none", ignore_index=_IGNORED) for end in ends
        ]
        return torch.stack(losses).mean(0)

    def agreement(self, answers: Outputs, reference: Outputs) -> Float[np.ndarray, " row"]:
        """Token F1 with the most similar acceptable answer."""
        assert answers.answers is not None
        assert reference.answers is not None
        pairs = zip(answers.answers, reference.answers, strict=True)
        return np.array([max(token_f1(answer, text) for text in accepted) for (answer, *_), accepted in pairs])

    def predicted_target(self, logits: "Logits", *, scale: "Scale" = "logit") -> "Target":
        from didact.core.target import Target, best_span

        return Target.span(*best_span(logits.detach()), scale=scale)

    def target_of(self, outputs: Outputs, batch: "Batch", *, scale: "Scale" = "logit") -> "Target":
        from didact.core.target import Target

        tokens = self.training_targets(outputs, batch)
        unreadable = [row_id for row_id, span in zip(outputs.ids, tokens.tolist(), strict=True) if span[0] < 0]
        if unreadable:
            raise DataError(f"The answers of {len(unreadable)} rows lie outside what the model reads:", unreadable)
        return Target.span(tokens[:, 0], tokens[:, 1], scale=scale)

    def knows(self, row: Row, classes: Sequence[str] | None) -> bool:  # noqa: ARG002
        return bool(row.answers)

    def gold(self, rows: Sequence[Row], classes: tuple[str, ...] | None) -> Outputs:  # noqa: ARG002
        best = [row.answers[0] for row in rows]
        answers = tuple(tuple(map(row.text_of, row.answers)) for row in rows)
        values = np.array([[span.start, span.end] for span in best], dtype=np.float64).reshape(-1, 2)
        return Outputs(self, tuple(row.id for row in rows), values, answers)


READING: Final[Task] = Reading("reading", ("question", "passage"), fewest_texts=2)
