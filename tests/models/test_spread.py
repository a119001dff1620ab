"""Teachers that accelerate has spread: weights elsewhere until they are needed, layers on two devices."""

import sys

import accelerate
import numpy as np
import pytest
from accelerate.hooks import AlignDevicesHook, add_hook_to_module
from transformers import BertForSequenceClassification

import didact
import tiny
from didact.errors import DidactError, MissingExtraError, OptionError, UnsupportedError
from didact.evaluation.sanity import sanity
from didact.explainers import EXPLAINERS
from didact.explaining.explain import explain
from didact.learning.train import train_teacher
from didact.models.huggingface import HuggingFaceModel
from explainers.test_explainer_contract import OPTIONS
from far import FAR, far

pytestmark = pytest.mark.filterwarnings("ignore::didact.errors.ExplanationWarning")  # few samples, for speed

ARCHITECTURES = {
    "bert": ("ForSequenceClassification", {}),
    "gpt2": ("ForSequenceClassification", {}),
    "vit": ("ForImageClassification", {}),
    "reading": ("ForQuestionAnswering", {"labels": 2}),
}
# What is on the second device where there are two.
ABOVE = {
    "bert": ["bert.encoder.layer.1", "bert.pooler", "classifier"],
    "gpt2": ["transformer.h.1", "transformer.ln_f", "score"],
    "vit": ["vit.layers.1", "vit.layernorm", "classifier"],
    "reading": ["bert.encoder.layer.1", "qa_outputs"],
}
BELOW = {
    "bert": ["bert.embeddings", "bert.encoder.layer.0"],
    "gpt2": ["transformer.wte", "transformer.wpe", "transformer.h.0"],
    "vit": ["vit.embeddings", "vit.layers.0"],
    "reading": ["bert.embeddings", "bert.encoder.layer.0"],
}
# Each listens, differentiates or intervenes in its own way.
UNLIKE = ["gradient_input", "attention_all", "attention_gradient", "attention_cls", "occlusion", "value_zeroing", "lrp",
          "deeplift", "layer_conductance", "gradient_mix"]  # fmt: skip


def live(name):
    head, options = ARCHITECTURES[name]
    return tiny.huggingface("bert" if name == "reading" else name, head, **options)


def rows_of(name):
    return tiny.images() if name == "vit" else tiny.rows(2 if name == "reading" else 1)


def offloaded(name, kind, folder):
    model, tokenizer = live(name)
    if kind == "cpu":
        accelerate.cpu_offload(model, "cpu")
    else:
        accelerate.disk_offload(model, str(folder), execution_device="cpu")
    return HuggingFaceModel(model, tokenizer)


class TestWeightsElsewhere:
    @pytest.mark.parametrize(
        ("name", "kind"),
        [
            ("bert", "disk"), *(pytest.param(name, kind, marks=pytest.mark.slow) for name in ARCHITECTURES for kind in
                                ("cpu", "disk") if (name, kind) != ("bert", "disk"))
        ],
    )  # fmt: skip
    def test_it_is_the_same_teacher(self, name, kind, tmp_path):
        whole, spread, rows = HuggingFaceModel(*live(name)), offloaded(name, kind, tmp_path), rows_of(name)
        assert spread.is_dispatched
        assert not whole.is_dispatched
        assert {str(one.device) for one in spread.parameters()} == {"meta"}
        assert str(spread.device) == "cpu"
        assert spread.fingerprint() == whole.fingerprint()
        np.testing.assert_allclose(spread.predict(rows).values, whole.predict(rows).values, atol=1e-6)
        for method in UNLIKE:
            wanted, found = explain(whole, rows, method), explain(spread, rows, method)
            np.testing.assert_allclose(found.scores, wanted.scores, atol=1e-6, err_msg=method)
        assert {str(one.device) for one in spread.parameters()} == {"meta"}  # they went back
        assert spread.fingerprint() == whole.fingerprint()

    def test_other_weights_have_another_fingerprint(self, tmp_path):
        model, tokenizer = live("bert")
        model.classifier.bias.data += 1
        accelerate.disk_offload(model, str(tmp_path), execution_device="cpu")
        assert HuggingFaceModel(model, tokenizer).fingerprint() != HuggingFaceModel(*live("bert")).fingerprint()

    def test_what_it_cannot_do(self, tmp_path):
        spread = offloaded("bert", "disk", tmp_path)
        with pytest.raises(UnsupportedError, match="cannot be moved"):
            spread.to("cpu")
        data = didact.load_data("planted/sentiment(teach=10, explain=5, train=10, dev=5, test=6)")
        with pytest.raises(UnsupportedError, match="cannot be copied"):
            sanity(spread, data, ["gradient_input"], checks=["weights"], rows=2)


class Placed(AlignDevicesHook):
    """As accelerate places the layers of a model on several GPUs, without moving what is there already."""

    def init_hook(self, module):
        return module


def on_two_devices(name):
    model, tokenizer = live(name)
    for part in ABOVE[name]:
        model.get_submodule(part).to(FAR)
    for device, parts in (("cpu", BELOW[name]), (FAR, ABOVE[name])):
        for part in parts:
            add_hook_to_module(model.get_submodule(part), Placed(execution_device=device))
    add_hook_to_module(model, Placed(execution_device="cpu", io_same_device=True))
    return HuggingFaceModel(model, tokenizer)


def same_on_two_devices(name, methods):
    whole, rows = HuggingFaceModel(*live(name)), rows_of(name)
    options = {method: OPTIONS.get(method, {}) for method in methods}
    options |= {
        one: {**options[one], "background_rows": rows} for one in ("gradient_shap", "deep_shap") if one in options
    }
    wanted = {}
    for method in methods:
        try:
            wanted[method] = explain(whole, rows, method, **options[method])
        except DidactError:  # not for this task
            continue
    assert wanted
    with far():
        spread = on_two_devices(name)
        assert {one.device.type for one in spread.parameters()} == {"cpu", "far"}
        np.testing.assert_allclose(spread.predict(rows).values, whole.predict(rows).values, atol=1e-5)
        for method, one in wanted.items():
            found = explain(spread, rows, method, **options[method])
            np.testing.assert_allclose(found.scores, one.scores, atol=1e-4, rtol=1e-3, err_msg=method)


@pytest.mark.parametrize(
    "name", [one if one == "gpt2" else pytest.param(one, marks=pytest.mark.slow) for one in ARCHITECTURES]
)
def test_layers_on_two_devices(name):
    same_on_two_devices(name, UNLIKE)


@pytest.mark.slow
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_every_explainer_with_layers_on_two_devices(name):
    same_on_two_devices(name, [one for one in EXPLAINERS if one not in (*UNLIKE, "l2e")])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("bert")
    model, tokenizer = live("bert")
    model.save_pretrained(place)
    tokenizer.save_pretrained(place)
    return place


class TestByName:
    def test_auto(self, folder, monkeypatch):
        """Here there is the CPU alone: what transformers is asked, and that it answers with the same teacher."""
        whole, asked = didact.load_teacher(folder), []
        load = BertForSequenceClassification.from_pretrained

        def watched(*args, **options):
            asked.append(options.get("device_map"))
            return load(*args, **options)

        monkeypatch.setattr(BertForSequenceClassification, "from_pretrained", watched)
        spread = didact.load_teacher(folder, device="auto")
        assert asked == ["auto"]
        assert spread.fingerprint() == whole.fingerprint()
        rows = tiny.rows()
        wanted = explain(whole, rows, "integrated_gradients").scores
        np.testing.assert_allclose(explain(spread, rows, "integrated_gradients").scores, wanted, atol=1e-6)

    def test_a_live_model_with_a_map_of_devices(self, folder, tmp_path):
        places = {"bert.embeddings": "cpu", "bert.encoder.layer.0": "cpu", "bert.encoder.layer.1": "disk",
                  "bert.pooler": "disk", "classifier": "cpu"}  # fmt: skip
        _, tokenizer = live("bert")
        whole = BertForSequenceClassification.from_pretrained(folder)
        placed = BertForSequenceClassification.from_pretrained(folder, device_map=places, offload_folder=tmp_path)
        assert placed.hf_device_map == places
        spread, whole = didact.load_teacher((placed, tokenizer)), didact.load_teacher((whole, tokenizer))
        assert spread.is_dispatched
        assert str(spread.device) == "cpu"
        assert spread.fingerprint() == whole.fingerprint()
        rows = tiny.rows()
        for method in ("integrated_gradients", "attention_all", "occlusion"):
            np.testing.assert_allclose(
                explain(spread, rows, method).scores, explain(whole, rows, method).scores, atol=1e-6, err_msg=method
            )

    def test_without_accelerate(self, folder, monkeypatch):
        monkeypatch.setitem(sys.modules, "accelerate", None)
        with pytest.raises(MissingExtraError, match=r"didact\[accelerate\]"):
            didact.load_teacher(folder, device="auto")

    def test_what_is_trained_is_on_one_device(self):
        with pytest.raises(OptionError, match="training needs one"):
            train_teacher("planted/sentiment(teach=10, explain=5, train=10, dev=5, test=6)", device="auto")

    def test_native_models_are_small(self, tmp_path):
        data = "planted/sentiment(teach=10, explain=5, train=10, dev=5, test=6)"
        train_teacher(data, "native(width=8, heads=2)", epochs=1, progress=False, out=tmp_path / "t")
        with pytest.raises(OptionError, match="small native"):
            didact.load_teacher(tmp_path / "t", device="auto")
