"""Sets from the hub, with `datasets.load_dataset` replaced by sets in memory that have the hub's columns."""

import builtins

import numpy as np
import pytest

from didact.data import DATASETS, cut
from didact.data.load import load_data
from didact.data.recipe import CONVERTED, Recipe
from didact.errors import DataError

datasets = pytest.importorskip("datasets")

REAL = [name for name, entry in DATASETS.items() if entry.target.startswith("didact.data.recipes.")]
ON_HUB = [name for name in REAL if "hub" in DATASETS[name].sources]
INFERENCE = ["entailment", "neutral", "contradiction"]


def numbered(count, **columns):
    """A column is a function of the row's number."""
    return [{name: make(n) for name, make in columns.items()} for n in range(count)]


def of(rows, **kinds):
    table = datasets.Dataset.from_list(rows)
    for column, names in kinds.items():
        table = table.cast_column(column, datasets.ClassLabel(names=names))
    return table


def pair_rows(first, second, names, split, count, **more):
    columns = {
        first: lambda n: f"{split} first {n}",
        second: lambda n: f"second {n}",
        "label": lambda n: n % len(names),
    }
    return of(numbered(count, **columns, **more), label=names)


def reviews(split):
    rows = numbered(40, text=lambda n: f"{split} {n}.<br /><br />Good", label=lambda n: n % 2)
    return of(rows, label=["neg", "pos"])


def trees(split, count):
    return of(numbered(count, ptb_tree=lambda n: f"(4 (2 {split}{n}) (4 (2 -LRB-) (3 lovely)))"))


def evidence(split, count):
    rows = numbered(
        count,
        review=lambda n: f"{split} {n} is\na bad film\nreally",
        label=lambda n: n % 2,
        evidences=lambda _: ["a bad film", "not there"],
    )
    return of(rows, label=["NEG", "POS"])


def explained(split, count):
    passage = "Bob Dylan was born in 1941 ."

    def span(start, end):
        return {"start": start, "end": end, "string": "" if start < 0 else passage[start:end]}

    return of(
        numbered(
            count,
            example_id=lambda n: n,
            question=lambda n: f"when was dylan born {split} {n}",
            paragraph_text=lambda n: f"{passage} {split} {n}",
            original_nq_answers=lambda _: [span(22, 26)],
            annotation=lambda _: {
                "explanation_type": "single_sentence",
                "answer": [{"paragraph_reference": span(22, 26)}],
                "referential_equalities": [
                    {"question_reference": span(9, 14), "sentence_reference": span(0, 9)},
                    {"question_reference": span(9, 14), "sentence_reference": span(-1, -1)},
                ],
            },
        )
    )


def pictures(count, shade):
    rng = np.random.default_rng(shade)
    rows = numbered(
        count,
        img=lambda _: rng.integers(0, 256, (32, 32, 3)).astype(np.uint8),
        fine_label=lambda n: n % 100,
        coarse_label=lambda n: n % 20,
    )
    return datasets.Dataset.from_list(
        rows,
        features=datasets.Features(
            {"img": datasets.Image(), "fine_label": datasets.Value("int64"), "coarse_label": datasets.Value("int64")}
        ),
    )


def posts(split, count):
    return of(
        numbered(
            count,
            id=lambda n: f"{split}{n}",
            annotators=lambda n: {"label": [0, 1, 2] if n == 0 else [2, 2, 0]},
            rationales=lambda n: [[0, 1, 1], [0, 0, 1], [1, 0, 1]] if n % 2 else [],
            post_tokens=lambda n: [f"{split}{n}", "you", "lot"],
        )
    )


def translations(config, split, count):
    source, target = config.split("-")
    return of(
        numbered(
            count,
            translation=lambda n: {source: f"{split} quelle {config} {n}", target: f"ziel {n}"},
            z_mean=lambda n: n / 10,
        )
    )


SETS = {
    "stanfordnlp/imdb": lambda _: {split: reviews(split) for split in ("train", "test")},
    "stanfordnlp/sst": lambda _: {
        "train": trees("train", 60),
        "validation": trees("v", 5),
        "test": trees("t", 5),
    },
    "eraser-benchmark/movie_rationales": lambda _: {
        "train": evidence("train", 60),
        "validation": evidence("v", 5),
        "test": evidence("t", 5),
    },
    "esnli/esnli": lambda _: {
        split: pair_rows("premise", "hypothesis", INFERENCE, split, count)
        for split, count in {"train": 150, "validation": 5, "test": 5}.items()
    },
    "nyu-mll/glue": lambda config: {
        "mnli": lambda: {
            split: pair_rows("premise", "hypothesis", INFERENCE, split, count, idx=lambda n: n)
            for split, count in {"train": 170, "validation_matched": 9}.items()
        },
        "qqp": lambda: {
            split: pair_rows("question1", "question2", ["not_duplicate", "duplicate"], split, count, idx=lambda n: n)
            for split, count in {"train": 200, "validation": 9}.items()
        },
        "cola": lambda: {
            split: of(
                numbered(count, sentence=lambda n, split=split: f"{split} {n}", label=lambda n: n % 2, idx=lambda n: n)
            )
            for split, count in {"train": 70, "validation": 9}.items()
        },
    }[config](),
    "fancyzhx/ag_news": lambda _: {
        split: of(numbered(40, text=lambda n, split=split: f"{split} {n}", label=lambda n: n % 4))
        for split in ("train", "test")
    },
    "wmt/wmt20_mlqe_task1": lambda config: {
        split: translations(config, split, 20) for split in ("train", "validation", "test")
    },
    "google-research-datasets/qed": lambda _: {
        "train": explained("train", 70),
        "validation": explained("v", 9),
    },
    "uoft-cs/cifar100": lambda _: {"train": pictures(100, 0), "test": pictures(20, 1)},
    "Hate-speech-CNERG/hatexplain": lambda _: {split: posts(split, 20) for split in ("train", "validation", "test")},
}


@pytest.fixture
def hub(monkeypatch):
    """The hub in memory. Records what was asked for."""
    calls = []

    def load_dataset(repo, name=None, *, data_files=None, revision=None):
        calls.append((repo, name, data_files, revision))
        config = name or next(iter(data_files.values())).partition("/")[0]
        return datasets.DatasetDict(SETS[repo](config))

    def share_less(rows, shares, **options):
        """Cuts ask for a hundredth of the rows, so that the hub in memory stays small."""
        return share(
            rows, {name: part // 100 if isinstance(part, int) else part for name, part in shares.items()}, **options
        )

    share = cut.split_by_hash
    monkeypatch.setattr(cut, "split_by_hash", share_less)
    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    monkeypatch.delenv("DIDACT_DATA", raising=False)
    return calls


@pytest.mark.parametrize("name", ON_HUB)
def test_every_set_on_the_hub(name, hub):
    data = load_data(name)
    entry = DATASETS[name]
    assert data.task.name == entry.task
    assert set(data) == {"teach", "explain", "train", "dev", "test"}
    assert data.has_rationales == (entry.rationales and name != "mlqe_pe")
    seen = [{row.content for row in data[split]} for split in ("teach", "train", "dev", "test")]
    assert sum(map(len, seen)) == len(set.union(*seen))
    ids = [row.id for split in ("teach", "train", "dev", "test") for row in data[split]]
    assert len(set(ids)) == len(ids)
    if data.classes:
        assert {row.label for row in data["teach"]} <= set(range(len(data.classes)))
    repo, config, files, revision = hub[0]
    assert revision == CONVERTED or len(revision) == 40
    assert (files is None) == (revision != CONVERTED)
    assert f"{repo} at revision {revision}" in data.notes[0]
    assert config is not None or all(pattern.endswith("/*.parquet") for pattern in files.values())


def test_folder_goes_before_the_hub(hub, tmp_path, monkeypatch):
    (tmp_path / "imdb").mkdir()
    monkeypatch.setenv("DIDACT_DATA", str(tmp_path))
    with pytest.raises(DataError, match=r"imdb/train\.jsonl\.gz"):
        load_data("imdb")
    assert not hub


@pytest.mark.usefixtures("hub")
def test_trees_become_texts_and_words():
    row = load_data("sst")["test"][3]
    assert row.texts == ("t3 ( lovely",)
    assert [row.text_of(span) for span in row.rationale] == ["lovely"]


@pytest.mark.usefixtures("hub")
def test_evidence_is_found_by_its_tokens():
    row = load_data("movie_rationales")["test"][2]
    assert row.texts == ("t 2 is a bad film really",)
    assert [row.text_of(span) for span in row.rationale] == ["a bad film"]


@pytest.mark.usefixtures("hub")
def test_references_of_qed():
    row = load_data("qed")["test"][0]
    assert [row.text_of(span) for span in row.label] == ["1941"]
    assert [tuple(row.text_of(span) for span in pair) for pair in row.alignments] == [("dylan", "Bob Dylan")]
    assert [row.text_of(span) for span in row.rationale] == ["dylan", "Bob Dylan", "1941"]


@pytest.mark.usefixtures("hub")
def test_posts_of_hatexplain():
    data = load_data("hatexplain")
    rows = {row.id: row for row in data["test"]}
    assert "test0" not in rows  # its three annotators disagree
    assert [rows["test1"].text_of(span) for span in rows["test1"].rationale] == ["lot"]
    assert rows["test2"].rationale is None
    assert data.classes[rows["test1"].label] == "offensive"


@pytest.mark.usefixtures("hub")
def test_pictures_keep_their_pixels():
    np.testing.assert_array_equal(load_data("cifar100")["test"][0].image, np.asarray(pictures(20, 1)[0]["img"]))
    assert load_data("cifar100(labels=coarse)").classes[0] == "aquatic_mammals"


def test_pairs_of_languages_are_joined(hub):
    data = load_data("mlqe_pe(pair=en-de+ro-en)")
    assert len(data["test"]) == 40
    assert data["test"][0].texts == ("test quelle en-de 0", "ziel 0")
    assert [next(iter(call[2].values())).partition("/")[0] for call in hub] == ["en-de", "ro-en"]


@pytest.mark.usefixtures("hub")
def test_a_changed_column_is_named(monkeypatch):
    changed = {split: of([{"review": "a", "label": 0}]) for split in ("train", "test")}
    monkeypatch.setitem(SETS, "stanfordnlp/imdb", lambda _: changed)
    with pytest.raises(DataError, match="expected the columns text, label, but 'text' is not among review, label"):
        load_data("imdb")


@pytest.mark.usefixtures("hub")
def test_a_faulty_row_is_named(monkeypatch):
    rows = [{"text": "a", "label": 0}, {"text": "b", "label": 5}]
    monkeypatch.setitem(SETS, "stanfordnlp/imdb", lambda _: {split: of(rows) for split in ("train", "test")})
    with pytest.raises(
        DataError, match="stanfordnlp/imdb plain_text train row 2: field 'label' holds 5, which is not one"
    ):
        load_data("imdb")


@pytest.mark.usefixtures("hub")
def test_a_missing_split_is_named(monkeypatch):
    monkeypatch.setitem(SETS, "stanfordnlp/imdb", lambda _: {"train": reviews("train")})
    with pytest.raises(DataError, match="the hub has no such split. It has train"):
        load_data("imdb")


def both_remedies(text, name):
    assert f"put {name}/" in text
    assert "DIDACT_DATA" in text
    assert "pip install 'didact[hub]'" in text or "Not from the hub" in text


@pytest.mark.parametrize(
    "error", [ConnectionError("no route"), RuntimeError("scripts are refused"), FileNotFoundError("gone")]
)
def test_no_folder_and_no_network(error, monkeypatch):
    def refuse(*_, **__):
        raise error

    monkeypatch.setattr(datasets, "load_dataset", refuse)
    monkeypatch.delenv("DIDACT_DATA", raising=False)
    with pytest.raises(DataError) as caught:
        load_data("imdb")
    both_remedies(str(caught.value), "imdb")
    assert str(error) in str(caught.value)
    assert "DIDACT_DATA is not set" in str(caught.value)


def test_no_folder_and_no_package(monkeypatch):
    real = builtins.__import__

    def without(name, *rest):
        if name == "datasets":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    monkeypatch.delenv("DIDACT_DATA", raising=False)
    with pytest.raises(DataError) as caught:
        load_data("imdb")
    both_remedies(str(caught.value), "imdb")


def test_sets_that_are_not_on_the_hub_say_why(monkeypatch, tmp_path):
    monkeypatch.setenv("DIDACT_DATA", str(tmp_path))
    with pytest.raises(DataError, match="loading script") as caught:
        load_data("sst_rationales")
    both_remedies(str(caught.value), "sst_rationales")
    assert str(tmp_path) in str(caught.value)


def test_a_data_dir_without_the_set_is_an_error(hub, tmp_path):
    with pytest.raises(DataError, match="cannot be read from data_dir") as caught:
        load_data("imdb", data_dir=tmp_path)
    both_remedies(str(caught.value), "imdb")
    assert not hub


@pytest.mark.parametrize("name", REAL)
def test_recipes_and_table_agree(name):
    recipe = DATASETS.load(name)()
    assert isinstance(recipe, Recipe)
    assert recipe.name == name
    assert recipe.task.name == DATASETS[name].task
    assert (recipe.hub is not None) == ("hub" in DATASETS[name].sources)
    assert bool(recipe.not_on_hub) == (recipe.hub is None)
    if recipe.hub is not None:
        assert any(set(cut) <= set(recipe.hub.splits) for cut in recipe.cuts)


@pytest.mark.network
@pytest.mark.parametrize("name", ON_HUB)
def test_the_real_hub(name, monkeypatch):
    monkeypatch.delenv("DIDACT_DATA", raising=False)
    data = load_data(name)
    assert all(len(split) for split in data.values())
