"""Every strategy: what ignoring an explanation costs a student, against closed forms; and the same promises for all."""

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
import torch

import teachers
import tiny
from didact.core.simplex import sparsemax
from didact.core.task import CLASSIFICATION
from didact.errors import OptionError, UnknownNameError, UnsupportedError
from didact.explaining.explain import explain
from didact.learning.fit import Examples, Training
from didact.learning.teach import teach
from didact.registry import Spec, parse_spec
from didact.students import STRATEGIES
from didact.students.attention import Attention
from didact.students.build import build_strategy, parse_student, strategy_options
from didact.students.lesson import Lesson

STUDENTS = {
    "none": "native",
    "attention": "native",
    "multitask": "native",
    "alignment": "native",
    "gradient": "native",
}


def setting(name: str, kind: str = "native"):
    """A tiny student, its rows, explanations of them, and the strategy attached."""
    task = "reading" if name == "alignment" else "classification"
    model = deepcopy(teachers.teacher(kind, task, torch.float64))
    rows = teachers.examples(task)
    maps = explain(model, rows, "random")
    strategy = build_strategy(Spec(name))
    batch = model.encode(rows)
    torch.manual_seed(0)
    strategy.attach(model, batch)
    return model, rows, maps, strategy.double(), batch


def test_every_strategy_is_here():
    assert set(STUDENTS) == set(STRATEGIES)


@pytest.mark.parametrize("name", STUDENTS)
def test_alone_is_batched(name):
    """A row's loss does not depend on the rows beside it, nor on their padding."""
    model, rows, maps, strategy, batch = setting(name)
    lesson = strategy.lesson(maps, batch)
    together = strategy(strategy.run(model, batch), batch, lesson)
    for row in range(len(rows)):
        one = batch.select([row])
        trace = strategy.run(model, one)
        alone = strategy(trace, one, lesson.select(torch.tensor([row]), one.mask.shape[1]))
        torch.testing.assert_close(alone[0], together[row], rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("name", [name for name in STUDENTS if name != "none"])
def test_teaching_lowers_the_loss_and_reaches_the_student(name):
    model, _, maps, strategy, batch = setting(name)
    lesson = strategy.lesson(maps, batch)
    parameters = [*model.parameters(), *strategy.parameters()]
    optimiser = torch.optim.Adam(parameters, lr=0.01)
    losses = []
    for _ in range(30):
        loss = strategy(strategy.run(model, batch), batch, lesson).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.9 * losses[0]
    assert all(np.isfinite(losses))


def test_attention_is_a_divergence():
    """β · KL by hand, from the student's own attention logits; zero where both agree."""
    model, _, maps, _, batch = setting("attention")
    strategy = Attention(beta=2.0).double()
    strategy.attach(model, batch)
    trace = model(batch, listen=["mean"])
    logits = trace.mean.mean((1, 2))  # equal coefficients at the start
    lesson = strategy.lesson(maps, batch)
    for row, found in enumerate(strategy(trace, batch, lesson).tolist()):
        units = batch.units[row]
        student_log_probs = logits[row, units].softmax(-1)
        sent = lesson.mass[row, units]
        by_hand = 2.0 * (sent * (sent / student_log_probs).log()).sum().item()
        assert found == pytest.approx(by_hand, rel=1e-6)
    student_log_probs = strategy.student_log_probs(trace, batch).exp()
    same = strategy(trace, batch, Lesson(mass=student_log_probs.detach()))
    torch.testing.assert_close(same, torch.zeros_like(same), atol=1e-12, rtol=0)


@pytest.mark.parametrize("logit", [-1.0, -40.0, -500.0])
def test_a_student_that_is_wholly_wrong_still_gets_a_gradient(logit):
    """The gradient of β · KL for the student's logits is β (softmax − sent), however little it gives the right unit."""
    strategy = Attention(beta=2.0).double()
    logits = torch.tensor([[logit, 0.0, -1.0, 7.0]], dtype=torch.float64, requires_grad=True)
    units = torch.tensor([[True, True, True, False]])
    sent = torch.tensor([[0.9, 0.0, 0.1, 0.0]], dtype=torch.float64, requires_grad=True)

    def loss(logits, sent):
        return strategy.divergence(sent, logits.masked_fill(~units, -torch.inf).log_softmax(-1), units).sum()

    (slope,) = torch.autograd.grad(loss(logits, sent), logits, create_graph=True)
    expected = 2.0 * (torch.softmax(logits[:, :3], -1) - sent[:, :3])
    torch.testing.assert_close(slope[:, :3], expected, rtol=1e-6, atol=1e-12)
    # SMaT asks for the mixed second derivative: that of the slope above for what was sent.
    vector = torch.tensor([[1.0, -2.0, 0.5, 0.0]], dtype=torch.float64)
    (mixed,) = torch.autograd.grad((slope * vector).sum(), sent)
    chances = torch.softmax(logits[:, :3], -1).detach()
    expected = 2.0 * ((chances * vector[:, :3]).sum() - vector) * units
    torch.testing.assert_close(mixed, expected)


@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_a_unit_that_the_student_cannot_see_leaves_loss_and_gradient_finite(direction):
    strategy = Attention(direction=direction).double()
    logits = torch.tensor([[-torch.inf, 0.0, -1.0]], dtype=torch.float64, requires_grad=True)
    units = torch.ones(1, 3, dtype=torch.bool)
    sent = torch.tensor([[0.5, 0.5, 0.0]], dtype=torch.float64)
    loss = strategy.divergence(sent, logits.log_softmax(-1), units)
    loss.sum().backward()
    assert loss.isfinite().all()
    assert logits.grad.isfinite().all()
    assert logits.grad[0, 1] < 0


def test_attention_from_where_the_student_answers():
    """`side=cls`: last layer, probabilities averaged over heads, renormalised over the units."""
    model, _, maps, _, batch = setting("attention", "hf")
    strategy = Attention(side="cls", send="top", beta=1.0).double()
    strategy.attach(model, batch)
    trace = model(batch, listen=["reading", "full"])
    heads = trace.full[:, -1, :, 0].softmax(-1).mean(1)  # [CLS] answers
    lesson = strategy.lesson(maps, batch)
    for row, found in enumerate(strategy(trace, batch, lesson).tolist()):
        units = batch.units[row]
        student_log_probs = heads[row, units] / heads[row, units].sum()
        sent = lesson.mass[row, units].double()
        assert found == pytest.approx((sent * (sent / student_log_probs).log()).sum().item(), rel=1e-6)


def test_attention_is_read_before_dropout():
    """A student in training mode drops attention weights; the loss must not see that."""
    from didact.models.tokenizer import WordTokenizer
    from didact.models.transformer import TransformerModel

    rows = tiny.rows()
    model = TransformerModel(
        CLASSIFICATION, ["n", "p"], WordTokenizer.from_rows(rows), layers=1, width=8, heads=2, dropout=0.5
    )
    batch = model.encode(rows)
    model.dropout.p = 0.0  # only the layer's own dropout stays, which falls on its weights and outputs
    strategy = Attention(side="cls")
    strategy.attach(model, batch)
    lesson = strategy.lesson(explain(model.eval(), rows, "random"), batch)
    model.train()
    losses = [strategy(strategy.run(model, batch), batch, lesson) for _ in range(2)]
    torch.testing.assert_close(*losses)


def test_mix_learns_which_heads():
    """Heads get coefficients of their own: non-negative, one in sum, some exactly zero once they differ."""
    _, _, _, strategy, _ = setting("attention")
    start = sparsemax(strategy.coefficients)
    torch.testing.assert_close(start, torch.full_like(start, 1 / len(start)))
    with torch.no_grad():
        strategy.coefficients[0] += 2.0
    moved = sparsemax(strategy.coefficients)
    assert moved.sum().item() == pytest.approx(1.0)
    assert (moved == 0).any()


def test_multitask_is_the_likelihood_of_the_marks():
    """The CRF tags the units only: specials are skipped, and the loss is −log p per unit."""
    model, _, maps, strategy, batch = setting("multitask")
    lesson = strategy.lesson(maps, batch)
    trace = model(batch, listen=["hidden"])
    found = strategy(trace, batch, lesson)
    emissions = strategy.emit(trace.hidden[-1])
    likelihood = strategy.chain.log_likelihood(emissions, lesson.marks.long(), batch.units)
    torch.testing.assert_close(found, -likelihood / batch.units.sum(-1))
    whole = build_strategy(parse_spec("multitask(per=row)")).double()
    whole.emit, whole.chain = strategy.emit, strategy.chain
    torch.testing.assert_close(whole(trace, batch, lesson), -likelihood)


def test_alignment_is_the_mass_between_phrases():
    """−log of the mean over pairs: by loops over heads, question tokens and passage tokens."""
    model, rows, maps, strategy, batch = setting("alignment")
    pairs = [
        tuple(
            (tuple(_word(row, 0, at)), tuple(_word(row, 1, at)))
            for at in range(min(2, len(row.texts[0].split()), len(row.texts[1].split())))
        )
        for row in rows
    ]
    pairs[1] = ()
    maps = replace(maps, alignments=tuple(pairs))
    lesson = strategy.lesson(maps, batch)
    trace = model(batch, listen=["full"])
    found = strategy(trace, batch, lesson)
    last = trace.full[:, -1]
    for row in range(len(rows)):
        masses = []
        for question, passage in pairs[row]:
            over = _pieces(batch, row, question)
            onto = _pieces(batch, row, passage)
            heads = [
                np.mean([last[row, head, q].softmax(-1)[onto].sum().item() for q in over])
                for head in range(last.shape[1])
            ]
            masses.append(np.mean(heads))
        expected = -np.log(np.mean(masses)) if masses else 0.0
        assert found[row].item() == pytest.approx(expected, rel=1e-8, abs=1e-12)


def _word(row, segment: int, number: int) -> tuple[int, int, int]:
    text = row.texts[segment]
    word = text.split()[number]
    start = text.index(word)
    return segment, start, start + len(word)


def _pieces(batch, row: int, span: tuple[int, int, int]) -> list[int]:
    segment, start, end = span
    return [
        at for at in range(batch.mask.shape[1])
        if batch.segments[row, at] == segment and batch.offsets[row, at, 0] < end and batch.offsets[row, at, 1] > start
    ]  # fmt: skip


def test_refusals():
    bilstm = teachers.teacher("bilstm", "classification", torch.float64)
    batch = bilstm.encode(teachers.examples("classification"))
    with pytest.raises(UnsupportedError, match="which has none"):
        build_strategy(Spec("attention")).attach(bilstm, batch)
    with pytest.raises(UnsupportedError, match="needs questions and passages"):
        build_strategy(Spec("alignment")).attach(bilstm, batch)
    with pytest.raises(OptionError, match="whole"):
        build_strategy(parse_spec("attention(send=half)"))
    with pytest.raises(OptionError, match="beta"):
        build_strategy(parse_spec("attention(beta=-1)"))
    with pytest.raises(OptionError, match="share"):
        build_strategy(parse_spec("multitask(k=2)"))
    with pytest.raises(OptionError, match="temperture"):
        build_strategy(parse_spec("attention(temperture=1)"))


def test_specs():
    """Names of students as people write them; hub names hold slashes too."""
    one = parse_student("same/attention(beta=2)@sgd")
    assert (one.architecture, str(one.strategy), one.optimiser) == ("same", "attention(beta=2)", "sgd")
    assert str(parse_student("same")) == "same/attention"
    assert parse_student("google/electra-small").architecture == "google/electra-small"
    assert parse_student("google/electra-small/multitask").architecture == "google/electra-small"
    assert parse_student("bilstm(embeddings=a/b)/none").architecture == "bilstm(embeddings=a/b)"
    assert str(parse_student("same/pruthi").strategy) == "attention(send=top, side=cls)"
    assert str(parse_student("same/pruthi(k=0.2)").strategy) == "attention(k=0.2, send=top, side=cls)"
    assert str(parse_student("same/smat(beta=1)").strategy) == "attention(beta=1, side=mix)"
    assert strategy_options(Spec("attention"))["beta"] == 5.0
    for text, error in (("same/atention", UnknownNameError), ("same@sdg", OptionError), ("/attention", OptionError)):
        with pytest.raises(error):
            parse_student(text)


@pytest.mark.parametrize("student", ["bilstm/multitask", "bilstm_attention/attention"])
def test_recurrent_students_are_taught(student):
    """The losses of BiLSTMs fall, and the same seed gives the same weights."""
    spec = parse_student(student)

    def taught():
        model = deepcopy(teachers.teacher(spec.architecture, "classification", torch.float32))
        rows = tuple(teachers.examples("classification"))
        outputs = model.predict(rows)
        examples = Examples.of(model, rows, outputs)
        training = Training(epochs=3, batch_size=2, optimiser="adam", warmup=0.0)
        found = teach(
            model, build_strategy(spec.strategy), explain(model, rows, "random"), examples, examples, training
        )
        return found.history, model.fingerprint()

    (first, weights), (second, again) = taught(), taught()
    assert first[-1].loss < first[0].loss
    assert first == second
    assert weights == again


def signed_setting(name: str, **options):
    """`setting` with signed explanations of two rows of several words."""
    model, rows, _, _, _ = setting(name)
    batch = model.encode(rows[:2])
    maps = explain(model, rows[:2], "random")
    maps = replace(maps, kind="signed", scores=maps.scores - np.median(maps.scores))
    strategy = build_strategy(Spec(name, options)).double()
    torch.manual_seed(0)
    strategy.attach(model, batch)
    return model, maps, strategy.double(), batch


def test_split_attention_is_two_divergences_weighted_by_mass():
    """By hand: the positive part on the first mix, the negative part on the second, each by its share of |s|."""
    model, maps, strategy, batch = signed_setting("attention", signed="split", beta=2.0, temperature=0.5)
    with torch.no_grad():
        strategy.coefficients[0] += 0.3
        strategy.coefficients_against[1] += 0.4
    trace = model(batch, listen=strategy.listen)
    heads = trace.mean.flatten(1, 2)
    losses = strategy(trace, batch, strategy.lesson(maps, batch))
    for row, loss in enumerate(losses.tolist()):
        scores = torch.from_numpy(maps.scores[maps.bounds[row] : maps.bounds[row + 1]])
        expected = 0.0
        for sign, coefficients in ((1, strategy.coefficients), (-1, strategy.coefficients_against)):
            side = (sign * scores).clamp_min(0)
            assert side.sum() > 0, "a row with words of both signs"
            sent = side**2 / (side**2).sum()  # temperature 1/2
            logits = torch.stack([heads[row, head, batch.units[row]] for head in range(len(coefficients))])
            student = (sparsemax(coefficients) @ logits).log_softmax(-1)
            divergence = (torch.xlogy(sent, sent) - sent * student).sum().item()
            expected += 2.0 * divergence * (side.sum() / scores.abs().sum()).item()
        assert loss == pytest.approx(expected, rel=1e-5)


def test_split_attention_without_signs_is_attention():
    """Explanations without signs, and rows whose scores are all of one sign, go to one mix."""
    model, maps, split, batch = signed_setting("attention", signed="split")
    plain = Attention().double()
    plain.attach(model, batch)
    trace = model(batch, listen=plain.listen)
    for kind, sign in (("magnitude", 1), ("signed", 1)):
        sent = replace(maps, kind=kind, scores=sign * np.abs(maps.scores))
        torch.testing.assert_close(
            split(trace, batch, split.lesson(sent, batch)), plain(trace, batch, plain.lesson(sent, batch))
        )
    with torch.no_grad():
        split.coefficients_against[0] += 0.1
    against = replace(maps, scores=-np.abs(maps.scores))
    loss = split(trace, batch, split.lesson(against, batch))
    assert (loss != plain(trace, batch, plain.lesson(against, batch))).all(), "the other mix"
    loss.sum().backward()
    assert split.coefficients_against.grad.any()
    assert not split.coefficients.grad.any()


@pytest.mark.parametrize("options", ["side=cls", "send=top"])
def test_split_attention_needs_two_mixes_and_whole_scores(options):
    with pytest.raises(OptionError, match="signed=split needs side=mix and send=whole.*'gradient'"):
        build_strategy(parse_spec(f"attention(signed=split, {options})"))


def test_multitask_with_signs_tags_for_and_against():
    """The top half of the words by |score|, tagged by their signs; the loss is −log p of these tags."""
    model, maps, strategy, batch = signed_setting("multitask", signs=True, k=0.5)
    lesson = strategy.lesson(maps, batch)
    for row in range(len(batch)):
        scores = maps.scores[maps.bounds[row] : maps.bounds[row + 1]]
        top = np.argsort(-np.abs(scores), kind="stable")[: -(-len(scores) // 2)]
        expected = [0 if index not in top else 1 if score > 0 else 2 for index, score in enumerate(scores)]
        assert lesson.tags[row][batch.units[row]].tolist() == expected
    assert set(lesson.tags.unique().tolist()) == {0, 1, 2}
    trace = model(batch, listen=strategy.listen)
    likelihood = strategy.chain.log_likelihood(strategy.emit(trace.hidden[-1]), lesson.tags, batch.units)
    torch.testing.assert_close(strategy(trace, batch, lesson), -likelihood / batch.units.sum(-1))
    unsigned = strategy.lesson(replace(maps, kind="magnitude", scores=np.abs(maps.scores)), batch)
    assert torch.equal(unsigned.tags, lesson.tags.clamp_max(1))
