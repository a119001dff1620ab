"""Perturbation methods: equal to captum, to exact Shapley values and to regressions written out."""

import dataclasses
import math
from itertools import combinations

import numpy as np
import pytest
import torch
from captum._utils.models.linear_model import SkLearnLinearRegression, SkLearnRidge
from captum.attr import FeatureAblation, LimeBase, Occlusion
from sklearn.linear_model import LinearRegression, Ridge

from didact import option_types
from didact.core.baseline import baseline_of
from didact.core.feature_groups import feature_groups
from didact.core.perturb import MaskedForward, on_all_positions
from didact.core.row import Row
from didact.core.target import Target
from didact.errors import OptionError, UnsupportedError
from didact.explainers.build import build_explainer
from didact.metrics.probe import Probe
from teachers import Forward, black_box, examples, scores, setting, teacher


def one_row(kind, index=1, task="classification"):
    model, batch, _, _ = setting(kind, task)
    batch = batch.select([index])
    with torch.no_grad():
        target = Target.predicted(model.task, model(batch).logits)
    return model, batch, target, Forward(model, batch, target)


def exact_shapley(value, players: int) -> np.ndarray:
    """Every subset, weighted by the formula."""
    found = np.zeros(players)
    for player in range(players):
        others = [one for one in range(players) if one != player]
        for size in range(players):
            weight = math.factorial(size) * math.factorial(players - size - 1) / math.factorial(players)
            for subset in combinations(others, size):
                found[player] += weight * (value({*subset, player}) - value(set(subset)))
    return found


class Values:
    """The target's values with some players of each row present, straight from the engine."""

    def __init__(self, subject, batch, target, **options):
        self.masked, self.target = MaskedForward(subject, batch, **options), target
        self.players = feature_groups(batch).numpy()
        self.counts = (self.players.max(1) + 1).tolist()

    def __call__(self, kept):
        masks = [on_all_positions(one, players) for one, players in zip(kept, self.players, strict=True)]
        return self.masked(masks, read=lambda logits, rows: self.target.select(rows).of(logits))


def value_of(removal: Values, row: int):
    """The value of a set of players, asked one by one and remembered."""
    known = {}

    def value(subset):
        key = frozenset(subset)
        if key not in known:
            kept = [np.zeros((1, count), dtype=bool) for count in removal.counts]
            kept[row][0, list(key)] = True
            known[key] = float(removal(kept)[row][0])
        return known[key]

    return value


def captum_on(model, batch, forward, regression, kept, weights):
    """captum's LIME, of which its Kernel SHAP is a case, with our samples and their weights."""
    inputs, empty = model.embed(batch).detach(), baseline_of(model, batch, baseline="mask").detach()
    units = batch.units[0].nonzero()[:, 0]
    samples, proximity = iter(torch.from_numpy(kept).double()), iter(torch.from_numpy(weights))

    def presence(sample, _, **__):
        full = torch.ones(1, inputs.shape[1], dtype=torch.float64)
        full[0, units] = sample[0]
        return torch.where(full[..., None] > 0, inputs, empty)

    base = LimeBase(
        forward,
        regression,
        similarity_func=lambda *_, **__: next(proximity),
        perturb_func=lambda *_, **__: next(samples)[None],
        perturb_interpretable_space=True,
        from_interp_rep_transform=presence,
        to_interp_rep_transform=None,
    )
    return base.attribute(inputs, n_samples=len(kept))[0].double()


class TestMaskedForward:
    @pytest.mark.parametrize("kind", ["hf", "native", "bilstm"])
    @pytest.mark.parametrize("replace", ["zero", "pad", "mask"])
    def test_values_are_those_of_the_altered_embeddings(self, kind, replace):
        model, batch, target, forward = setting(kind)
        removal = Values(model, batch, target, replace=replace, batch_size=4)
        generator = np.random.default_rng(0)
        kept = [generator.random((5, count)) < 0.5 for count in removal.counts]
        found = removal(kept)
        full, empty = model.embed(batch).detach(), baseline_of(model, batch, baseline=replace).detach()
        for sample in range(5):
            inputs = full.clone()
            for row, choice in enumerate(kept):
                positions = batch.units[row].nonzero()[:, 0]
                for position, is_kept in zip(positions, choice[sample], strict=True):
                    if not is_kept:
                        inputs[row, position] = empty[row, position]
            with torch.no_grad():
                expected = forward(inputs)
            for row in range(len(batch)):
                assert abs(found[row][sample] - float(expected[row])) < 1e-10

    def test_equal_questions_are_asked_once(self):
        asked = []
        subject = black_box()
        inner = subject.function
        subject.function = lambda inputs: asked.extend(inputs) or inner(inputs)
        rows = [Row("a", ("no more of that",))]
        removal = Values(subject, subject.encode(rows), Target.label(torch.tensor([1]), scale="probability"))
        kept = np.array([[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 0, 0]], dtype=bool)
        values = removal([kept])[0]
        assert sorted(asked) == ["   ", "no more  "]
        assert values[0] == values[1] != values[2]

    @pytest.mark.parametrize("kind", ["hf", "native", "bilstm"])
    def test_deleted_units_leave_a_shorter_row(self, kind):
        model, batch, target, _ = setting(kind)
        values = Values(model, batch, target, replace="delete", batch_size=4)
        kept = [np.ones((1, count), dtype=bool) for count in values.counts]
        for one in kept:
            one[0, 0] = False
        found = values(kept)
        for row in np.flatnonzero(np.array(values.counts) > 1).tolist():
            stays = batch.mask[row].clone()
            stays[batch.units[row].nonzero()[0]] = False
            alone = batch.select([row])
            stays = stays[: alone.mask.shape[1]]
            shorter = {
                name: getattr(alone, name)[:, stays] for name in ("tokens", "mask", "units", "segments", "words")
            }
            shorter["types"] = None if alone.types is None else alone.types[:, stays]
            short = dataclasses.replace(alone, **shorter, offsets=alone.offsets[:, stays], rows=None, rationale=None)
            with torch.no_grad():
                expected = target.select(torch.tensor([row])).of(model.eval()(short).logits)
            assert abs(found[row][0] - float(expected[0])) < 1e-10

    def test_a_model_without_any_token_for_it_gets_zeros(self, monkeypatch):
        model, batch, target, _ = setting("hf")
        kept = [np.zeros((1, count), dtype=bool) for count in Values(model, batch, target).counts]
        zeros = Values(model, batch, target, replace="zero")(kept)

        def none(name):
            raise UnsupportedError(name)

        monkeypatch.setattr(model, "special_token_id", none)
        bare = Values(model, batch, target)
        assert bare.masked.description == "embedding 0, since there is no mask token"
        np.testing.assert_array_equal(bare(kept), zeros)
        with pytest.raises(UnsupportedError, match="replace=delete or replace=zero"):
            Values(model, batch, target, replace="pad")

    @pytest.mark.parametrize("replace", ["mask", "delete"])
    def test_marks_on_what_is_no_unit_are_ignored(self, replace):
        """A mask that takes everything away leaves special tokens and padding where they are."""
        model, batch, _, _ = setting("hf")
        forward = MaskedForward(model, batch, replace=replace)
        (nothing,), (units_gone,) = (
            forward([np.zeros((1, batch.units.shape[1]), dtype=bool)], rows=[1]),
            forward([~batch.units[1:2].numpy()], rows=[1]),
        )
        np.testing.assert_array_equal(nothing, units_gone)

    @pytest.mark.parametrize(("missing", "stands"), [((), "mask"), (("mask",), "unk"), (("mask", "unk"), "pad")])
    def test_the_token_of_unknown_words_comes_before_that_of_padding(self, monkeypatch, missing, stands):
        model, batch, _, _ = setting("hf")
        known = model.special_token_id

        def special_token_id(name):
            if name in missing:
                raise UnsupportedError(name)
            return known(name)

        monkeypatch.setattr(model, "special_token_id", special_token_id)
        expected = f"replaced by {model.token_name(known(stands))}"
        assert MaskedForward(model, batch).description.split(",")[0] == expected

    def test_a_deleted_unit_moves_the_positions_of_a_span(self):
        model, batch, target, _ = setting("hf", "reading")
        assert target.kind == "span"
        with pytest.raises(UnsupportedError, match="replace=delete"):
            scores("occlusion", model, batch, target, replace="delete")

    @pytest.mark.parametrize("replace", [None, "mask", "delete", "zero"])
    def test_explainers_and_metrics_take_units_away_alike(self, replace):
        """The drop that `occlusion` scores is the one that a metric sees, whatever is asked for, and by default."""
        model, rows = teacher("hf", "classification"), examples("classification")
        options = {} if replace is None else {"replace": replace}
        batch, probe = model.encode(rows), Probe(model, rows, **options)
        target = Target.label(torch.zeros(len(batch), dtype=torch.long), scale="probability")
        found = scores("occlusion", model, batch, target, **options).scores
        full = probe.full()
        for row in range(len(batch)):
            units = batch.units[row].nonzero()[:, 0].tolist()
            masks = np.ones((len(units), batch.units.shape[1]), dtype=bool)
            masks[np.arange(len(units)), units] = False
            drops = full[row, 0] - probe.predict_masked([masks], rows=[row])[0][:, 0]
            np.testing.assert_allclose(found[row, units].numpy(), drops, atol=1e-9)

    def test_the_old_name_of_the_option_is_understood(self, caplog):
        option_types._warn_of_new_name.cache_clear()
        found = build_explainer("occlusion(baseline=zero)")
        assert found.options["replace"] == "zero"
        build_explainer("lime(baseline=zero)")
        assert caplog.text.count("'baseline' is now called 'replace'") == 1
        with pytest.raises(OptionError, match="both were given"):
            build_explainer("occlusion(baseline=zero)", replace="mask")
        assert build_explainer("integrated_gradients(baseline=pad)").options["baseline"] == "pad"

    def test_a_function_sees_the_text_without_the_word(self):
        subject = black_box(absent="_")
        assert subject.without(Row("a", ("ab cd", "ef")), [*subject.units(Row("a", ("ab cd", "ef")))[1:]]).texts == (
            "ab _", "_",
        )  # fmt: skip

    def test_a_function_sees_the_image_without_the_square(self):
        subject = black_box("image", patch=16)
        row = examples("image")[0]
        changed = subject.without(row, [subject.units(row)[1]]).image
        assert (changed[:16, 16:32] == row.image.mean((0, 1)).round().astype(np.uint8)).all()
        assert (changed[16:] == row.image[16:]).all()
        assert (changed[:, :16] == row.image[:, :16]).all()


class TestOcclusion:
    @pytest.mark.parametrize("kind", ["hf", "native", "bilstm_attention"])
    def test_is_captums(self, kind):
        model, batch, target, forward = one_row(kind)
        inputs, empty = model.embed(batch).detach(), baseline_of(model, batch, baseline="mask").detach()
        ours = scores("occlusion", model, batch, target).scores
        window = (1, inputs.shape[-1])
        theirs = Occlusion(forward).attribute(inputs, window, strides=window, baselines=empty)[..., 0]
        torch.testing.assert_close(ours, theirs.double() * batch.units, atol=1e-6, rtol=0)  # captum keeps 32 bits

    def test_words_are_captums_feature_ablation(self):
        model = teacher("hf", "classification")
        batch = model.encode([Row("w", ("unbelievable film unbelievable",))])
        target = Target.label(torch.tensor([1]))
        words = torch.tensor([[0, 1, 1, 1, 2, 3, 3, 3, 4]])  # [CLS], three pieces, film, three pieces, [SEP]
        assert batch.tokens.shape == words.shape
        inputs, empty = model.embed(batch).detach(), baseline_of(model, batch, baseline="mask").detach()
        theirs = FeatureAblation(Forward(model, batch, target)).attribute(
            inputs, empty, feature_mask=words[..., None].expand_as(inputs)
        )[..., 0]
        ours = scores("occlusion", model, batch, target, level="word").scores
        torch.testing.assert_close(ours[0, [1, 4, 5]], theirs[0, [1, 4, 5]], atol=1e-10, rtol=0)
        assert (ours[0, [0, 2, 3, 6, 7, 8]] == 0).all()


class TestLime:
    def test_draws_as_the_paper_does(self):
        lime = build_explainer("lime", samples=4000).explainer
        kept = lime.draw("row", 6)
        gone = (~kept).sum(1)
        assert gone[0] == 0
        counts = np.bincount(gone[1:], minlength=7)
        assert counts[0] == 0
        assert (abs(counts[1:] / 3999 - 1 / 6) < 0.03).all(), "as many gone as a draw from 1 to all says"
        assert (abs((~kept).mean(0) - 3.5 / 6) < 0.03).all(), "every unit as likely as the others"

    def test_weighs_as_the_paper_does(self):
        """Cosine distance in hundredths, width 25, under a root."""
        lime = build_explainer("lime").explainer
        kept = np.array([[1, 1, 1, 1], [1, 0, 1, 0], [0, 0, 0, 1]], dtype=bool)
        distance = [100 * (1 - one.sum() / (math.sqrt(one.sum()) * 2)) for one in kept.astype(float)]
        np.testing.assert_allclose(lime.proximity(kept), [math.sqrt(math.exp(-(d**2) / 25**2)) for d in distance])

    @pytest.mark.parametrize("kind", ["hf", "native", "bilstm"])
    def test_is_captums_on_the_same_samples(self, kind):
        model, batch, target, forward = one_row(kind)
        explainer = build_explainer("lime", samples=50).explainer
        ours = explainer(model, batch, target).scores
        kept = explainer.draw(batch.ids[0], int(batch.units.sum()))
        theirs = captum_on(model, batch, forward, SkLearnRidge(alpha=1.0), kept, explainer.proximity(kept))
        torch.testing.assert_close(ours[batch.units], theirs, atol=1e-4, rtol=0)

    def test_is_a_ridge_regression_with_a_free_intercept(self):
        model, batch, target, _ = setting("native")
        explainer = build_explainer("lime", samples=60, ridge=0.5, kernel_width=0.7).explainer
        ours = explainer(model, batch, target).scores
        removal = Values(model, batch, target)
        kept = [explainer.draw(row, count) for row, count in zip(batch.ids, removal.counts, strict=True)]
        for row, values in enumerate(removal(kept)):
            fitted = Ridge(alpha=0.5).fit(kept[row], values, sample_weight=explainer.proximity(kept[row]))
            np.testing.assert_allclose(ours[row][batch.units[row]].numpy(), fitted.coef_, atol=1e-9)


class TestKernelShap:
    @pytest.mark.parametrize(("kind", "task"), [("hf", "classification"), ("native", "pair"), ("bilstm", "regression")])
    def test_enumerated_is_exact(self, kind, task):
        model, batch, target, _ = setting(kind, task)
        removal = Values(model, batch, target)
        row = int(np.argmin(np.abs(np.array(removal.counts) - 6)))
        players = removal.counts[row]
        assert 3 <= players <= 8
        found = scores("kernel_shap", model, batch, target, samples=2**players)
        expected = exact_shapley(value_of(removal, row), players)
        np.testing.assert_allclose(found.scores[row][batch.units[row]].numpy(), expected, atol=1e-9)
        assert (found.residual < 1e-9).all()

    @pytest.mark.parametrize("samples", [40, 200])
    def test_is_captums_on_the_same_samples(self, samples):
        """captum holds the two ends by a weight of a million, where we have a constraint."""
        model, batch, target, forward = one_row("hf")
        explainer = build_explainer("kernel_shap", samples=samples).explainer
        ours = explainer(model, batch, target).scores
        masks = explainer.sample_masks(batch.ids[0], int(batch.units.sum()))
        weights = np.concatenate([[1e6, 1e6], masks.extra])
        theirs = captum_on(model, batch, forward, SkLearnLinearRegression(), masks.present, weights)
        torch.testing.assert_close(ours[batch.units], theirs, atol=1e-4, rtol=0)

    def test_of_a_function_is_exact(self):
        subject, rows = black_box("pair"), [Row("a", ("no a", "on board"))]
        batch, target = subject.encode(rows), Target.label(torch.tensor([1]), scale="probability")
        found = scores("kernel_shap", subject, batch, target, samples=16).scores
        expected = exact_shapley(value_of(Values(subject, batch, target), 0), 4)
        np.testing.assert_allclose(found[0].numpy(), expected, atol=1e-9)

    @pytest.mark.parametrize(
        ("units", "samples"), [(6, 64), (6, 30), (11, 200), (11, 40), (30, 100), (200, 500), (1, 4)]
    )
    def test_draws_pairs_without_replacement_within_the_budget(self, units, samples):
        kept, weights = build_explainer("kernel_shap", samples=samples).explainer.draw("row", units)
        assert len(kept) + 2 <= max(samples, 2)
        assert len(kept) == len(weights)
        if units == 1:
            return
        keys = {one.tobytes() for one in kept}
        assert len(keys) == len(kept), "no subset twice"
        assert all((~one).tobytes() in keys for one in kept), "each with its complement"
        assert 0 < kept.sum(1).min() <= kept.sum(1).max() < units
        if 2**units <= samples:
            assert len(kept) == 2**units - 2
        assert weights.sum() == pytest.approx(sum(1 / (s * (units - s)) for s in range(1, units))), (
            "all weight is spent"
        )

    @pytest.mark.parametrize(("units", "samples"), [(10, 200), (14, 500), (11, 1000)])
    def test_each_size_has_its_weight(self, units, samples):
        """Of all subsets of one size, however many were drawn, the weights sum to what the kernel gives that size."""
        kept, weights = build_explainer("kernel_shap", samples=samples).explainer.draw("row", units)
        for size in range(1, units):
            assert weights[kept.sum(1) == size].sum() == pytest.approx(1 / (size * (units - size)), rel=1e-9)

    def test_nears_the_truth_as_samples_grow(self):
        model, batch, target, _ = setting("hf")
        removal = Values(model, batch, target)
        row = int(np.argmax(removal.counts))
        truth = scores("kernel_shap", model, batch, target, samples=2 ** removal.counts[row]).scores[row]
        gaps = []
        for samples in (30, 120, 480):
            found = [scores("kernel_shap", model, batch, target, samples=samples, seed=s).scores[row] for s in range(5)]
            gaps.append(float(torch.stack([(one - truth).abs().mean() for one in found]).mean()))
        assert gaps[0] > 1.5 * gaps[1] > 2 * gaps[2]

    @pytest.mark.parametrize("units", [300, 512])
    def test_long_rows_are_determined_by_default(self, units):
        """An additive game has its own terms as Shapley values. 500 samples leave a third of them open."""
        from didact.explainers.kernel_shap import KernelShap, constrained_fit

        truth = np.random.default_rng(0).normal(size=units)
        kept, weights = KernelShap().draw("row", units)
        found = constrained_fit(kept, kept @ truth, weights, float(truth.sum()))
        np.testing.assert_allclose(found, truth, atol=1e-8)
        assert len(kept) <= 4 * units

    def test_too_few_samples_set_no_unit_apart(self):
        """The last unit once carried the errors of all others. Now the order of the units does not matter."""
        from didact.explainers.kernel_shap import KernelShap, constrained_fit

        truth = np.random.default_rng(0).normal(size=60)
        kept, weights = KernelShap(samples=60).draw("row", 60)
        turned = np.roll(kept, 7, axis=1)
        found = constrained_fit(kept, kept @ truth, weights, float(truth.sum()))
        other = constrained_fit(turned, kept @ truth, weights, float(truth.sum()))
        np.testing.assert_allclose(np.roll(found, 7), other, atol=1e-8)
        assert found.sum() == pytest.approx(truth.sum())

    def test_short_rows_have_the_samples_they_had(self):
        from didact.explainers.kernel_shap import KernelShap

        assert [KernelShap().samples_for(units) for units in (1, 30, 125, 126, 512)] == [500, 500, 500, 504, 2048]

    def test_fits_with_weights_under_the_constraint(self):
        """Against a plain regression in which the constraint is a row of enormous weight."""
        from didact.explainers.kernel_shap import constrained_fit

        generator = np.random.default_rng(3)
        kept = generator.random((40, 5)) < 0.5
        gains, weights = generator.normal(size=40), generator.random(40)
        ours = constrained_fit(kept, gains, weights, 0.7)
        stacked = np.vstack([kept, np.ones(5)])
        plain = LinearRegression(fit_intercept=False).fit(
            stacked, np.append(gains, 0.7), sample_weight=np.append(weights, 1e9)
        )
        np.testing.assert_allclose(ours, plain.coef_, atol=1e-6)


class TestShapleySampling:
    def test_all_permutations_give_the_exact_values(self):
        from itertools import permutations

        model, batch, target, _ = one_row("native", 0)
        removal = Values(model, batch, target)
        players = removal.counts[0]
        explainer = build_explainer("shapley_sampling", permutations=math.factorial(players)).explainer
        explainer.draw = lambda *_: np.array(list(permutations(range(players))))
        found = explainer(model, batch, target)
        expected = exact_shapley(value_of(removal, 0), players)
        np.testing.assert_allclose(found.scores[0][batch.units[0]].numpy(), expected, atol=1e-10)

    def test_permutations_come_with_their_reverse(self):
        orders = build_explainer("shapley_sampling", permutations=6).explainer.draw("row", 9)
        assert orders.shape == (6, 9)
        assert (np.sort(orders, 1) == np.arange(9)).all()
        assert (orders[3:] == orders[:3, ::-1]).all()

    def test_is_complete(self):
        model, batch, target, _ = setting("hf")
        assert (scores("shapley_sampling", model, batch, target, permutations=3).residual < 1e-9).all()


def test_options_that_make_no_sense_are_refused():
    for name, options in [
        ("lime", {"samples": 1}),
        ("lime", {"kernel_width": 0}),
        ("kernel_shap", {"samples": 2}),
        ("shapley_sampling", {"permutations": 1}),
    ]:
        with pytest.raises(OptionError):
            build_explainer(name, **options)
    model, batch, target, _ = setting("native")
    with pytest.raises(OptionError, match="level"):
        scores("lime", model, batch, target, level="sentence")
