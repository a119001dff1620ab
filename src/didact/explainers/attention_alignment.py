"""Which words of a question a model ties to which words of the passage, by its own attention between them."""

import numpy as np
import torch
from jaxtyping import Float, Int

from didact.core.explainer import Batch, Explainer, Explanation, Target, Teacher
from didact.core.model import require_model
from didact.core.row import Row, Span
from didact.core.words import words
from didact.errors import OptionError, UnsupportedError
from didact.explainers.attention_rollout import residual_attention


class AttentionAlignment(Explainer):
    """Phrases of question and passage that attend to each other most.

    Pruthi et al. 2022 had a teacher trained to align; this one is read by its own attention. The tie of two words is
    the attention from one to the other and back, mean of the heads and of all layers (or of the last), a mean over the
    pieces that look and a sum over those looked at. Words that are each other's strongest tie are a pair, pairs of
    neighbours one phrase; the `pairs` strongest phrases are kept. Signs are no words here.
    """

    def __init__(self, *, layers: str = "all", pairs: int = 3) -> None:
        super().__init__()
        if layers not in ("last", "all"):
            raise OptionError(f"Option 'layers' of attention_alignment is 'last' or 'all', not {layers!r}.")
        if pairs < 1:
            raise OptionError(f"Option 'pairs' of attention_alignment is at least 1, not {pairs}.")
        self.layers, self.pairs = layers, pairs

    def forward(self, teacher: Teacher, batch: Batch, target: Target) -> Explanation:  # noqa: ARG002
        model = require_model(teacher, "attention_alignment")
        if not model.task.has_alignments:
            raise UnsupportedError(
                f"Method 'attention_alignment' ties a question to its passage, and model {model.name!r} does "
                f"{model.task}. Choose attention_all or attention_rollout, or a model of task reading."
            )
        assert batch.rows is not None
        marks = torch.zeros(batch.tokens.shape, device=batch.device)
        alignments: list[tuple[tuple[Span, Span], ...]] = [()] * len(batch)
        for chosen, matrices in residual_attention(model, batch):
            # What stays in its place lies on the diagonal: between two texts there is attention alone.
            attention = matrices[:, -1] if self.layers == "last" else matrices.mean(1)
            for index, matrix in zip(chosen.tolist(), attention.cpu().double().numpy(), strict=True):
                row, token_words = batch.rows[index], (batch.segments[index], batch.words[index])
                segments, numbers = (values[: len(matrix)].cpu().numpy() for values in token_words)
                phrases = self._phrases(row, segments, numbers, matrix)
                alignments[index] = tuple(
                    (_bounding_span(question), _bounding_span(passage)) for question, passage in phrases
                )
                for segment, phrase in (side for pair in phrases for side in enumerate(pair)):
                    word_numbers = torch.tensor([number for number, _ in phrase], device=batch.device)
                    marks[index] += (token_words[0] == segment) & torch.isin(token_words[1], word_numbers)
        return Explanation(marks.clamp_max(1.0), batch.mask, batch.units, "binary", alignments=tuple(alignments))

    def _phrases(
        self,
        row: Row,
        segments: Int[np.ndarray, " token"],
        numbers: Int[np.ndarray, " token"],
        attention: Float[np.ndarray, "token token"],
    ) -> list[tuple[list[tuple[int, Span]], list[tuple[int, Span]]]]:
        """Words of the question with those of the passage, in the order of the question."""
        encoded = [set(numbers[segments == segment].tolist()) for segment in (0, 1)]  # a cut text lacks its last words
        question, passage = (
            [word for word in alphanumeric_words(row, side) if word[0] in encoded[side]] for side in (0, 1)
        )
        if not question or not passage:
            return []
        question_tokens, passage_tokens = (
            np.array([(segments == side) & (numbers == number) for number, _ in side_words], dtype=np.float64)
            for side, side_words in enumerate((question, passage))
        )
        ties = (
            _row_means(question_tokens) @ attention @ passage_tokens.T
            + (_row_means(passage_tokens) @ attention @ question_tokens.T).T
        )
        phrases = mutual_phrases(ties, [number for number, _ in question], [number for number, _ in passage])
        strength = [sum(ties[pair] for pair in phrase) for phrase in phrases]
        strongest = sorted(np.argsort(-np.array(strength), kind="stable")[: self.pairs].tolist())
        return [
            ([question[first] for first, _ in phrases[index]], [passage[second] for _, second in phrases[index]])
            for index in strongest
        ]


def mutual_phrases(
    ties: Float[np.ndarray, "question passage"], question: list[int], passage: list[int]
) -> list[list[tuple[int, int]]]:
    """Pairs of words that are each other's strongest, neighbours in both texts joined; at least one, the strongest tie.

    `question` and `passage` are the words' places in their texts.
    """
    best_passage, best_question = ties.argmax(1), ties.argmax(0)
    pairs = [(first, int(second)) for first, second in enumerate(best_passage) if best_question[second] == first]
    # Where a model looks at its neighbourhood only, words without any tie are each other's best for nothing.
    pairs = [pair for pair in pairs if ties[pair] > 0] or pairs[:1]
    phrases: list[list[tuple[int, int]]] = []
    for first, second in pairs:
        if phrases:
            last_question, last_passage = phrases[-1][-1]
            # No word is in two pairs, so steps of one never turn round: a phrase has no holes.
            if question[first] - question[last_question] == 1 and abs(passage[second] - passage[last_passage]) == 1:
                phrases[-1].append((first, second))
                continue
        phrases.append([(first, second)])
    return phrases


def alphanumeric_words(row: Row, segment: int) -> list[tuple[int, Span]]:
    """The words of one text that are letters and digits, each with its number among all words of the text."""
    text = row.texts[segment]
    return [(number, word) for number, word in enumerate(words(text, segment)) if text[word.start].isalnum()]


def _row_means(pieces: Float[np.ndarray, "word token"]) -> Float[np.ndarray, "word token"]:
    return pieces / pieces.sum(1, keepdims=True)


def _bounding_span(phrase: list[tuple[int, Span]]) -> Span:
    spans = [span for _, span in phrase]
    return Span(spans[0].segment, min(span.start for span in spans), max(span.end for span in spans))
