"""Learned explainers: what they are unlearned, what one part alone gives, and that they survive being kept."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from didact.core.resolve_target import resolve_target
from didact.core.row import Row
from didact.errors import OptionError, RecordError, UnsupportedError
from didact.explainers.build import build_explainer
from didact.explainers.combine import combine_components, stack_members
from didact.explainers.learned import load_explainer
from didact.explainers.mix import AttentionMix, Blend, ComponentMix, GradientMix
from didact.explaining.component_scores import compute_component_scores
from didact.explaining.explain import explain
from didact.files.checksummed import read_json, write_json
from didact.results.component_scores import ComponentScores
from didact.results.temperature import apply_temperature, matching_temperature, mean_entropy
from teachers import black_box, examples, teacher

FAMILIES = {
    "attention_mix": {},
    "gradient_mix": {},
    "blend": {"members": "gradient_norm + gradient_input + lime(samples=16)"},
}


def prepared(family: str, kind: str = "native", **options) -> ComponentMix:
    found = build_explainer(family, **FAMILIES[family] | options).explainer
    found.prepare(teacher(kind, "classification"), examples("classification"))
    return found


def only(found: ComponentMix, place: int) -> ComponentMix:
    with torch.no_grad():
        found.coefficients.copy_(torch.nn.functional.one_hot(torch.tensor(place), len(found.names)))
    return found


@pytest.mark.parametrize("kind", ["hf", "native", "bilstm_attention"])
def test_unlearned_attention_is_the_mean_of_all_heads(kind):
    subject, rows = teacher(kind, "classification"), examples("classification")
    mix, mean = explain(subject, rows, "attention_mix"), explain(subject, rows, "attention_all")
    np.testing.assert_allclose(mix.scores, mean.scores, atol=1e-6)
    cold = explain(subject, rows, "attention_mix(temperature=0.5)")
    np.testing.assert_allclose(cold.scores, explain(subject, rows, "attention_all(temperature=0.5)").scores, atol=1e-6)


def test_a_learned_temperature_is_in_force_as_one_that_was_given():
    subject, rows = teacher("native", "classification"), examples("classification")
    learned = prepared("attention_mix", learn_temperature=True)
    with torch.no_grad():
        learned.log_temperature.fill_(float(np.log(0.5)))
    cold = explain(subject, rows, "attention_mix(temperature=0.5)")
    np.testing.assert_allclose(explain(subject, rows, learned).scores, cold.scores, atol=1e-6)
    assert not np.allclose(cold.scores, explain(subject, rows, "attention_mix").scores, atol=1e-3)


def test_a_blend_of_one_is_what_this_one_would_send():
    subject, rows = teacher("native", "classification"), examples("classification")
    for place, member in enumerate(("gradient_norm", "gradient_input", "lime(samples=16)")):
        found = explain(subject, rows, only(prepared("blend"), place))
        size = np.abs(explain(subject, rows, member).scores)
        owner = np.repeat(np.arange(len(found)), np.diff(found.bounds))
        share = size / np.add.reduceat(size, found.bounds[:-1])[owner]
        np.testing.assert_allclose(found.scores, share, atol=2e-3)


def test_a_member_that_scores_words_reaches_all_their_pieces():
    """Word for word the blend sends what the member sends; within a word all pieces get the same."""
    subject = teacher("hf", "pair")
    rows = [Row("r", ("unbelievable film", "not unbelievable")), Row("s", ("a good film", "bad"))]
    members = "lime(level=word, samples=32) + occlusion"
    blend = build_explainer("blend", members=members).explainer
    blend.prepare(subject, rows)
    member = explain(subject, rows, "lime(level=word, samples=32)")
    found = explain(subject, rows, only(blend, 0))
    pieces = [number for number, token in enumerate(found.tokens) if token in ("un", "believ", "able")]
    assert len(pieces) == 6
    for word in (pieces[:3], pieces[3:]):
        np.testing.assert_allclose(found.scores[word], found.scores[word[0]], rtol=1e-5)
    shares = [np.abs(one.scores) / np.abs(one.scores).sum() for one in member]
    np.testing.assert_allclose(found.words().scores, np.concatenate(shares), atol=2e-3)
    parts = compute_component_scores(subject, rows, blend)
    again = stack_members([(name, explain(subject, rows, name)) for name in blend.names])
    np.testing.assert_allclose(again.values, parts.values, atol=1e-5)


def test_one_layer_of_a_gradient_mix_is_its_gradient_times_input():
    subject, rows = teacher("native", "classification"), examples("classification")
    mix = only(prepared("gradient_mix"), 0)
    assert mix.names == ("embeddings", "layer 0", "layer 1")
    found = explain(subject, rows, mix)
    batch = subject.encode(rows)
    with torch.no_grad():
        target = resolve_target(subject, rows, batch, subject(batch).logits)
    point = subject.embed(batch, at="embedding").detach().requires_grad_()
    slope = torch.autograd.grad(target.of(subject.run(point, batch, at="embedding").logits).sum(), point)[0]
    size = (point * slope).sum(-1).abs().detach() * batch.units
    share = (size / size.sum(-1, keepdim=True))[batch.units].numpy()
    np.testing.assert_allclose(found.scores, share, atol=1e-3)


def test_what_a_layernorm_swallows_is_no_signal():
    """The last state of a pre-norm model goes straight into a LayerNorm: its gradient × input is rounding."""
    subject, rows = teacher("native", "classification"), examples("classification")
    found = explain(subject, rows, only(prepared("gradient_mix"), 2))
    for start, end in zip(found.bounds[:-1], found.bounds[1:], strict=True):
        np.testing.assert_allclose(found.scores[start:end], 1 / (end - start), atol=1e-6)


@pytest.mark.parametrize("family", FAMILIES)
def test_kept_parts_give_the_explanations_that_the_teacher_gives(family, tmp_path):
    subject, rows = teacher("hf", "classification"), examples("classification")
    mix = prepared(family, "hf")
    draw = torch.randn(len(mix.names), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        mix.coefficients += 0.2 * draw
    compute_component_scores(subject, rows, mix).save(tmp_path / "parts")
    kept = ComponentScores.load(tmp_path / "parts")
    found, expected = combine_components(mix, kept), explain(subject, rows, mix)
    np.testing.assert_allclose(found.scores, expected.scores, atol=1e-6)
    assert found.ids == expected.ids
    assert found.method == expected.method == family
    turned = kept.select([2, 0])
    np.testing.assert_allclose(combine_components(mix, turned).scores, expected.select([2, 0]).scores, atol=1e-6)


def test_members_that_explained_already_make_the_same_parts():
    subject, rows = teacher("native", "classification"), examples("classification")
    mix = prepared("blend")
    expected = compute_component_scores(subject, rows, mix)
    found = stack_members([(name, explain(subject, rows, name)) for name in mix.names])
    np.testing.assert_allclose(found.values, expected.values, atol=1e-4)
    assert found.names == expected.names


@pytest.mark.parametrize("family", FAMILIES)
def test_keeping_and_loading(family, tmp_path):
    mix = prepared(family, normaliser="softmax", learn_temperature=True)
    with torch.no_grad():
        mix.coefficients += torch.randn(len(mix.names))
        mix.log_temperature += 0.3
    mix.learned = {"data": "planted <b>", "rows": ["a"]}
    mix.save_pretrained(tmp_path / "one")
    again = load_explainer(tmp_path / "one")
    assert type(again) is type(mix)
    assert again.options == mix.options
    assert again.names == mix.names
    assert dict(again.learned) == dict(mix.learned)
    assert torch.equal(again.weights, mix.weights)
    subject, rows = teacher("native", "classification"), examples("classification")
    one, other = explain(subject, rows, mix), explain(subject, rows, str(tmp_path / "one"))
    np.testing.assert_array_equal(one.scores, other.scores)
    assert one.options == other.options
    assert one.options["weights"]
    with pytest.raises(OptionError, match="exists already"):
        mix.save_pretrained(tmp_path / "one")
    with pytest.raises(OptionError, match="holds a"):
        (GradientMix if family != "gradient_mix" else Blend).from_pretrained(tmp_path / "one")


def test_damaged_folders_are_told(tmp_path):
    mix = prepared("attention_mix")
    for name, harm in {
        "weights": lambda folder: (folder / "model.safetensors").write_bytes(b"12345678junk"),
        "config": lambda folder: (folder / "config.json").write_text("{"),
        "names": lambda folder: _change(folder, names=["0.0"]),
        "options": lambda folder: _change(folder, options=None),
    }.items():
        mix.save_pretrained(tmp_path / name)
        harm(tmp_path / name)
        with pytest.raises(RecordError, match="damaged"):
            load_explainer(tmp_path / name)
    mix.save_pretrained(tmp_path / "later")
    _change(tmp_path / "later", format=2)
    with pytest.raises(OptionError, match="format 2"):
        load_explainer(tmp_path / "later")
    mix.save_pretrained(tmp_path / "other")
    _change(tmp_path / "other", explainer="lime")
    with pytest.raises(OptionError, match="is not a learned explainer"):
        load_explainer(tmp_path / "other")
    with pytest.raises(OptionError, match="holds no learned explainer"):
        load_explainer(tmp_path)
    with pytest.raises(OptionError, match="There is no folder"):
        load_explainer("./nowhere")


def _change(folder, **changes):
    config = read_json(folder / "config.json", advice="")
    write_json(folder / "config.json", config | changes)


def test_another_teacher_is_refused():
    rows = examples("classification")
    mix = prepared("attention_mix")
    with pytest.raises(OptionError, match="weighs 8 components .* learned for another"):
        explain(teacher("bilstm_attention", "classification"), rows, mix)
    with pytest.raises(UnsupportedError, match="Choose"):
        explain(teacher("bilstm", "classification"), rows, "attention_mix")


def test_blends_choose_what_the_teacher_can_serve():
    rows = examples("classification")
    names = {
        "native": ("attention_all", "gradient_norm", "gradient_input", "integrated_gradients", "occlusion"),
        "bilstm": ("gradient_norm", "gradient_input", "integrated_gradients", "occlusion"),
    }
    for kind, expected in names.items():
        assert Blend().component_names(teacher(kind, "classification"), rows[0]) == expected
    mix = Blend(members="lime(samples=16) + occlusion")
    found = explain(black_box(), rows, mix)
    assert found.method == "blend"
    assert mix.names == ("lime(samples=16)", "occlusion")
    assert Blend().component_names(black_box(), rows[0]) == ("occlusion", "lime", "kernel_shap")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"members": "lime"}, "two different members"),
        ({"members": "lime + lime"}, "two different members"),
        ({"members": "lime + blend"}, "cannot be a member"),
        ({"members": "lime + lyme"}, "no explainer named 'lyme'"),
        ({"members": "lime + occlusion(samples=2)"}, "no option"),
    ],
)
def test_bad_members_are_told(options, message):
    with pytest.raises(Exception, match=message):
        explain(teacher("native", "classification"), examples("classification"), Blend(**options))


def test_bad_options_are_told():
    with pytest.raises(OptionError, match="'sparsemax' or 'softmax'"):
        AttentionMix(normaliser="sparsmax")
    with pytest.raises(OptionError, match="above 0"):
        AttentionMix(temperature=0.0)
    with pytest.raises(OptionError, match="no learned weights to save"):
        AttentionMix().save_pretrained("nowhere")


def test_a_temperature_makes_maps_as_sharp_as_others():
    maps = explain(teacher("native", "classification"), examples("classification"), "gradient_norm")
    wanted = 0.7 * mean_entropy(maps)
    found = apply_temperature(maps, matching_temperature(maps, wanted))
    assert mean_entropy(found) == pytest.approx(wanted, rel=1e-6)
    sums = np.add.reduceat(found.scores, found.bounds[:-1])
    np.testing.assert_allclose(sums, 1.0)
    even = apply_temperature(maps, 1e6)
    lengths = np.diff(maps.bounds)
    assert mean_entropy(even) == pytest.approx(np.log(lengths).mean(), rel=1e-4)
    np.testing.assert_allclose(apply_temperature(found, 1.0).scores, found.scores, rtol=1e-9)


@pytest.mark.parametrize("empty", [(0,), (1,), (2,), (0, 2), (1, 2, 3)])
def test_rows_without_units_have_no_entropy(empty):
    maps = explain(teacher("native", "classification"), examples("classification"), "gradient_norm")
    expected = mean_entropy(maps)
    counts = np.diff(maps.bounds).tolist()
    for place in empty:
        counts.insert(place, 0)
    ragged = with_counts(maps, counts)
    assert mean_entropy(ragged) == pytest.approx(expected, rel=1e-12)
    np.testing.assert_array_equal(apply_temperature(ragged, 0.5).scores, apply_temperature(maps, 0.5).scores)
    names = ("gradient_norm", "gradient_input")
    np.testing.assert_array_equal(
        stack_members([(name, ragged) for name in names]).values, stack_members([(name, maps) for name in names]).values
    )
    assert np.isnan(mean_entropy(ragged.select([empty[-1]])))


def with_counts(maps, counts):
    """The same units in rows of these counts."""
    rows = len(counts)
    return replace(
        maps, ids=tuple(map(str, range(rows))), bounds=np.concatenate([[0], np.cumsum(counts)]),
        texts=((" ".join(["unbelievable"] * 20),),) * rows, targets=("a",) * rows, predictions=("a",) * rows,
        residuals=np.full(rows, np.nan), probabilities=np.full(rows, np.nan), labels=(None,) * rows,
    )  # fmt: skip


def test_the_hub_gets_the_folder_and_gives_it_back(monkeypatch, tmp_path):
    """Against a hub in memory: what is uploaded is what `save_pretrained` writes, and it loads by name."""
    import shutil

    import huggingface_hub

    class Hub:
        def __init__(self, token=None):
            assert token == "secret"

        def create_repo(self, name, *, private, exist_ok):
            assert (name, private, exist_ok) == ("me/mine", True, True)
            return "https://hub/me/mine"

        def upload_folder(self, *, repo_id, folder_path, commit_message):
            assert repo_id == "me/mine"
            assert commit_message
            shutil.copytree(folder_path, tmp_path / "hub")

    monkeypatch.setattr(huggingface_hub, "HfApi", Hub)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda _, **__: str(tmp_path / "hub"))
    mix = prepared("attention_mix")
    assert mix.push_to_hub("me/mine", token="secret") == "https://hub/me/mine"
    assert torch.equal(AttentionMix.from_pretrained("me/mine").weights, mix.weights)

    def offline(name, **_):
        raise OSError(f"{name} cannot be reached")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", offline)
    with pytest.raises(OptionError, match="no folder 'me/other', and loading it from the hub failed"):
        load_explainer("me/other")
    with pytest.raises(OptionError, match="pass its folder without options"):
        load_explainer("me/other(level=word)")


def test_a_model_is_no_explainer(tmp_path):
    mix = prepared("attention_mix")
    mix.save_pretrained(tmp_path / "one")
    (tmp_path / "one" / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(OptionError, match="no learned explainer"):
        load_explainer(tmp_path / "one")


def test_what_is_drawn_anew_is_no_member():
    with pytest.raises(OptionError, match="resampled for every student"):
        explain(teacher("native", "classification"), examples("classification"), Blend(members="random + lime"))
