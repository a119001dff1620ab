"""Aligns words of a question with words of the passage by the model's own attention between them."""

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

    Pruthi et al. 2022 trained a teacher to align; this method reads the attention of any teacher. The strength of two
    words is the attention from one to the other plus the reverse, averaged over heads and over all layers (or the
    last), averaged over the querying pieces and summed over the attended pieces. Words that are each other's strongest
    partner form a pair, neighbouring pairs form a phrase, and the `pairs` strongest phrases are aligned. Punctuation
    does not count as words.
    """

    def __init__(self, *, layers: str = "all", pairs: int = 3) -> None:
        super().__init__()
        if layers not in ("last", "all"):
            raise OptionError(f"Option 'layers' of attention_alignment must be 'last' or 'all', got {layers!r}.")
        if pairs < 1:
            raise OptionError(f"Option 'pairs' of attention_alignment must be at least 1, got {pairs}.")
        self.layers, self.pairs = layers, pairs

    def forward(self, teacher: Teacher, batch: Batch, target: Target) -> Explanation:  # noqa: ARG002
        model = require_model(teacher, "attention_alignment")
        if not model.task.has_alignments:
            raise UnsupportedError(
                f"Method 'attention_alignment' aligns a question with its passage, and model {model.name!r} does "
                f"{model.task}. Choose attention_all or attention_rollout, or a model of task reading."
            )
        assert batch.rows is not None
        marks = torch.zeros(batch.tokens.shape, device=batch.device)
        alignments: list[tuple[tuple[Span, Span], ...]] = [()] * len(batch)
        for chosen, matrices in residual_attention(model, batch):
            # The residual connection is on the diagonal: entries between two texts are attention alone.
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
        """Aligned words of question and passage, in the order of the question."""
        # A truncated text lacks its last words.
        encoded = [set(numbers[segments == segment].tolist()) for segment in (0, 1)]
        question, passage = (
            [word for word in alphanumeric_words(row, side) if word[0] in encoded[side]] for side in (0, 1)
        )
        if not question or not passage:
            return []
        question_tokens, passage_tokens = (
            np.array([(segments == side) & (numbers == number) for number, _ in side_words], dtype=np.float64)
            for side, side_words in enumerate((question, passage))
        )
        strengths = (
            _row_means(question_tokens) @ attention @ passage_tokens.T
            + (_row_means(passage_tokens) @ attention @ question_tokens.T).T
        )
        phrases = mutual_phrases(strengths, [number for number, _ in question], [number for number, _ in passage])
        phrase_strengths = [sum(strengths[pair] for pair in phrase) for phrase in phrases]
        strongest = sorted(np.argsort(-np.array(phrase_strengths), kind="stable")[: self.pairs].tolist())
        return [
            ([question[first] for first, _ in phrases[index]], [passage[second] for _, second in phrases[index]])
            for index in strongest
        ]


def mutual_phrases(
    strengths: Float[np.ndarray, "question passage"], question: list[int], passage: list[int]
) -> list[list[tuple[int, int]]]:
    """Pairs of words that are each other's strongest partner, with neighbours in both texts joined. At least one pair.

    `question` and `passage` are the positions of the words in their texts.
    """
    best_passage, best_question = strengths.argmax(1), strengths.argmax(0)
    pairs = [(first, int(second)) for first, second in enumerate(best_passage) if best_question[second] == first]
    # With local attention, words of strength 0 could be each other's best partner by default.
    pairs = [pair for pair in pairs if strengths[pair] > 0] or pairs[:1]
    phrases: list[list[tuple[int, int]]] = []
    for first, second in pairs:
        if phrases:
            last_question, last_passage = phrases[-1][-1]
            # No word is in two pairs, so steps of one keep their direction: a phrase has no gaps.
            if question[first] - question[last_question] == 1 and abs(passage[second] - passage[last_passage]) == 1:
                phrases[-1].append((first, second))
                continue
        phrases.append([(first, second)])
    return phrases


def alphanumeric_words(row: Row, segment: int) -> list[tuple[int, Span]]:
    """The words of one text that are letters and digits, each with its index among all words of the text."""
    text = row.texts[segment]
    return [(number, word) for number, word in enumerate(words(text, segment)) if text[word.start].isalnum()]


def _row_means(pieces: Float[np.ndarray, "word token"]) -> Float[np.ndarray, "word token"]:
    return pieces / pieces.sum(1, keepdims=True)


def _bounding_span(phrase: list[tuple[int, Span]]) -> Span:
    spans = [span for _, span in phrase]
    return Span(spans[0].segment, min(span.start for span in spans), max(span.end for span in spans))
