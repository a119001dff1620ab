"""The bag of words: closed forms, what it refuses, and scores that add up."""

import pytest
import torch

from didact.core.resolve_target import resolve_target
from didact.core.task import CLASSIFICATION, READING
from didact.errors import OptionError, UnsupportedError
from didact.explainers.build import build_explainer
from didact.models.pool import PoolModel
from didact.models.tokenizer import WordTokenizer
from teachers import examples, teacher
from tiny import rows

CLASSES = ("a", "b")


def pool(**options: object) -> PoolModel:
    torch.manual_seed(0)
    return PoolModel(CLASSIFICATION, CLASSES, WordTokenizer.from_rows(rows()), width=16, **options).double().eval()


class TestPooling:
    def test_attention_written_out(self):
        model = pool()
        batch = model.encode(rows())
        trace = model(batch, listen=("mean", "reading", "weights", "hidden"))
        hidden, out, last = trace.hidden, model.score[0], model.score[2]
        torch.testing.assert_close(hidden[1], hidden[0].tanh())
        for row, length in enumerate(batch.lengths.tolist()):
            states = model.words.weight[batch.tokens[row, :length]].tanh()
            scores = (states @ out.weight.T + out.bias).tanh() @ last.weight[0]
            torch.testing.assert_close(trace.mean[row, 0, 0, :length], scores)
            torch.testing.assert_close(trace.reading[row, 0, 0, :length], scores.log_softmax(-1))
            torch.testing.assert_close(trace.logits[row], model.head(scores.softmax(-1) @ states))
            torch.testing.assert_close(trace.weights[0][row, 0, 0, :length], scores.softmax(-1))

    def test_mean_written_out(self):
        model = pool(pool="mean")
        batch = model.encode(rows())
        for row, length in enumerate(batch.lengths.tolist()):
            states = model.words.weight[batch.tokens[row, :length]].tanh()
            torch.testing.assert_close(model(batch).logits[row], model.head(states.mean(0)))

    @pytest.mark.parametrize("how", ["attention", "mean"])
    def test_the_order_of_words_is_not_seen(self, how):
        model = pool(pool=how)
        batch = model.encode(rows()[1:2])
        turned = model.run(model.embed(batch).flip(1), batch).logits
        torch.testing.assert_close(turned, model(batch).logits)


class TestRefusals:
    def test_attention_of_a_mean(self):
        model = pool(pool="mean")
        with pytest.raises(UnsupportedError, match="'reading' was requested from model 'pool', which has none. Choose"):
            model(model.encode(rows()), listen=("reading",))

    def test_options_and_tasks(self):
        with pytest.raises(OptionError, match="'pool' of 'pool' must be 'attention' or 'mean', not 'first'"):
            pool(pool="first")
        with pytest.raises(UnsupportedError, match="'pool' does not support reading"):
            PoolModel(READING, None, WordTokenizer.from_rows(rows()))


@pytest.mark.parametrize("name", ["deeplift", "integrated_gradients"])
def test_scores_add_up(name):
    """Completeness: the scores of a row sum to what the logit differs from that of nothing but zeros."""
    model, given = teacher("pool", "classification"), examples("classification")
    batch = model.encode(given)
    with torch.no_grad():
        logits = model(batch).logits
        nothing = model.run(torch.zeros_like(model.embed(batch)), batch).logits
    target = resolve_target(model, given, batch, logits)
    change = target.of(logits) - target.of(nothing)
    options = {"steps": 200} if name == "integrated_gradients" else {}
    found = build_explainer(name, **options).explainer(model, batch, target).scores.sum(-1)
    torch.testing.assert_close(found, change, rtol=1e-4, atol=1e-5)
