"""Names, specs and lists, as people write them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, Optional

import pytest

from didact.errors import OptionError, UnknownNameError, UnsupportedError
from didact.option_types import check_option_types
from didact.registry import Entry, Registry, Spec, checked_options, parse_spec, split_list

FRUIT = Registry(
    "fruit", {"apple": Entry("math:sqrt"), "banana": Entry("math:no_such_thing"), "cherry": Entry("math:pi")}
)


class TestRegistry:
    def test_loads_what_a_name_stands_for(self):
        assert FRUIT.load("apple")(9) == 3

    def test_an_unknown_name_is_answered_with_the_nearest(self):
        with pytest.raises(
            UnknownNameError, match=r"no fruit named 'aple'. Did you mean 'apple'\? Known: apple, banana, cherry"
        ):
            FRUIT["aple"]

    def test_a_name_near_nothing_lists_all(self):
        with pytest.raises(LookupError, match=r"no fruit named 'zzz'. Known: apple"):
            FRUIT["zzz"]

    def test_nothing_is_imported_before_it_is_asked_for(self):
        broken = Registry("thing", {"broken": Entry("no.such.module:x")})
        assert "broken" in broken
        assert list(broken) == ["broken"]
        with pytest.raises(ModuleNotFoundError):
            broken.load("broken")

    def test_packages_add_names_through_entry_points_but_take_none_over(self, monkeypatch):
        class Point:
            def __init__(self, name):
                self.name = name

            def load(self):
                return Entry("math:e")

        monkeypatch.setattr(
            "didact.registry.entry_points", lambda group: [Point("date"), Point("apple")] if group == "f" else []
        )
        registry = Registry("fruit", {"apple": Entry("math:sqrt")}, group="f")
        assert set(registry) == {"apple", "date"}
        assert registry["apple"].target == "math:sqrt"


class Point:
    """An entry point that gives this thing, or fails to."""

    def __init__(self, name, thing):
        self.name, self.value, self.thing, self.loads = name, f"package:{name}", thing, 0

    def load(self):
        self.loads += 1
        if isinstance(self.thing, Exception):
            raise self.thing
        return self.thing


class Peeled:
    """Fruit without its peel."""

    def __init__(self, *, power=1.0):
        self.power = power


@dataclass(frozen=True)
class Fruit(Entry):
    colour: str
    about: str
    seeds: tuple[str, ...] = ()
    stones: int = 0


class TestPlugins:
    @pytest.fixture
    def registry(self, monkeypatch):
        def make(*points, own=None):
            monkeypatch.setattr("didact.registry.entry_points", lambda group: points if group == "f" else [])
            return Registry("fruit", own or {"apple": Fruit("math:sqrt", "red", "an apple")}, group="f")

        return make

    def test_a_broken_package_breaks_its_own_name_only(self, registry):
        found = registry(Point("mine", ImportError("No module named 'numba'")), Point("good", Peeled))
        assert found.load("apple")(9) == 3
        assert found.load("good") is Peeled
        assert list(found) == ["apple", "good"], "what goes through all names leaves it out"
        assert len(found.items()) == 2
        assert "mine" in found
        with pytest.raises(UnknownNameError, match=r"Known: apple, good, mine"):
            found["zzz"]
        for _ in range(2):
            with pytest.raises(
                UnsupportedError,
                match=r"'mine' .*package:mine.* cannot be loaded: ImportError: No module named 'numba'\. Install",
            ):
                found["mine"]
        assert found.broken == {"mine": "ImportError: No module named 'numba'"}

    def test_nothing_is_loaded_before_its_name_is_asked_for(self, registry):
        one, other = Point("one", Peeled), Point("other", Peeled)
        found = registry(one, other)
        found.load("apple")
        assert "one" in found
        assert (one.loads, other.loads) == (0, 0)
        found.load("one")
        found["one"]
        assert (one.loads, other.loads) == (1, 0)

    def test_an_entry_point_may_name_the_class(self, registry):
        found = registry(Point("mine", Peeled))
        assert found.load("mine") is Peeled
        entry = found["mine"]
        assert (entry.colour, entry.about, entry.seeds) == ("not stated", "Fruit without its peel", ())
        assert entry.target == f"{Peeled.__module__}:Peeled"

    def test_facts_are_attributes_of_the_class(self, registry):
        class Green(Peeled):
            colour, stones = "green", 3

        entry = registry(Point("mine", Green))["mine"]
        assert (entry.colour, entry.stones) == ("green", 3)

    def test_what_is_neither_class_nor_entry_is_told(self, registry):
        found = registry(Point("mine", 3))
        with pytest.raises(UnsupportedError, match="names 3, which is neither a class or function nor a Fruit"):
            found["mine"]

    def test_a_fact_that_has_no_default_is_asked_for(self, registry):
        @dataclass(frozen=True)
        class Strict(Entry):
            bounds: tuple[float, float]

        found = registry(Point("mine", Peeled), own={"apple": Strict("math:sqrt", (0.0, 1.0))})
        with pytest.raises(
            UnsupportedError, match="no attribute 'bounds'. Add it, or let the entry point name a Strict"
        ):
            found["mine"]


def options_of_all_kinds(
    *,
    power=1.0,
    samples=10,
    is_on=False,
    word="a",
    free=None,
    k: Optional[int] = None,  # noqa: UP045 - as people write it
    width: int | None = 2,
    mode: Literal["a", "b", 1] = "a",
    shape: tuple[int, int] = (1, 2),
    table: dict[str, float] | None = None,
    plain: dict = MappingProxyType({}),
    shares: Sequence[float] = (),
    name: str = "x",
    rate: float = 0.1,
    switch: bool = True,
    anything: Any = None,
    path: Path = Path(),
    noted: Annotated[int, "n"] = 1,
    many: list = (),
    numbers: tuple[int, ...] = (),
):
    """Options as people write them: with and without annotations."""


class TestKindsOfOptions:
    @pytest.mark.parametrize(
        "text",
        [
            "power=2", "power=2.5", "samples=3", "samples=0.5", "is_on=true", "word=b", "free=3", "free=[x]", "k=3",
            "k=none", "width=none", "width=3", "mode=b", "mode=1", "shape=(3, 4)", "shape=[3, 4]",
            "table={'a': 1.0, 'b': 2}", "table=none", "plain={'a': 'b'}", "shares=[0.1, 1]", "name=word", "rate=1",
            "switch=false", "anything=[1]", "path=a/b", "noted=2", "many=['x', 1]", "numbers=[1, 2, 3]",
        ],
    )  # fmt: skip
    def test_taken(self, text):
        options = parse_spec(f"mine({text})").options
        check_option_types(options, options_of_all_kinds, of="mine")

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("power=x", "Option 'power' of mine must be a number, got 'x'."),
            ("is_on=1", "Option 'is_on' of mine must be true or false, got 1."),
            ("word=3", "Option 'word' of mine must be a string, got 3."),
            ("k=0.5", "Option 'k' of mine must be an integer or none, got 0.5."),
            ("width=true", "Option 'width' of mine must be an integer or none, got True."),
            ("mode=c", "Option 'mode' of mine must be 'a' or 'b' or 1, got 'c'."),
            ("shape=[1]", r"Option 'shape' of mine must be a list of 2 values, got \[1\]."),
            ("shape=[1, x]", "must be a list of 2 values"),
            ("table={'a': 'x'}", "'table' of mine must be a mapping such as {'a': 0.5} or none, got {'a': 'x'}."),
            ("plain=3", "Option 'plain' of mine must be a mapping"),
            ("shares=0.1", r"Option 'shares' of mine must be a list such as \[0.1, 0.5\], got 0.1."),
            ("rate=none", "Option 'rate' of mine must be a number, got None."),
            ("switch=0", "must be true or false, got 0"),
            ("path=3", "must be a Path, got 3"),
            ("noted=x", "must be an integer, got 'x'"),
            ("numbers=[0.5]", "must be a list"),
        ],
    )
    def test_refused(self, text, message):
        with pytest.raises(OptionError, match=message):
            check_option_types(parse_spec(f"mine({text})").options, options_of_all_kinds, of="mine")

    def test_annotations_that_cannot_be_resolved_are_no_obstacle(self):
        def method(*, device: "torch.device" = None, samples: "int" = 3):
            return device, samples

        check_option_types({"device": "cpu", "samples": 4}, method, of="mine")


class TestSpecs:
    @pytest.mark.parametrize(
        ("text", "name", "options"),
        [
            ("lime", "lime", {}),
            ("lime()", "lime", {}),
            ("lime(samples=200)", "lime", {"samples": 200}),
            (" native( layers=2, rate=1e-3 ,mix=true) ", "native", {"layers": 2, "rate": 1e-3, "mix": True}),
            ("a(b=word, c='x, y', d=[1, 2], e=none)", "a", {"b": "word", "c": "x, y", "d": [1, 2], "e": None}),
            ("planted/sentiment(seed=1)", "planted/sentiment", {"seed": 1}),
            ("mlqe_pe(pair=en-de)", "mlqe_pe", {"pair": "en-de"}),
        ],
    )
    def test_reads(self, text, name, options):
        assert parse_spec(text) == Spec(name, options)

    @pytest.mark.parametrize("text", ["lime(samples=200)", "a(b=word,c='x, y',d=[1, 2],e=None,f=True)", "a"])
    def test_prints_what_it_reads_again(self, text):
        spec = parse_spec(text)
        assert parse_spec(str(spec)) == spec

    def test_prints_options_in_one_order(self):
        assert str(parse_spec("a(z=1,b=2)")) == str(parse_spec("a(b=2,z=1)")) == "a(b=2, z=1)"

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("", "Cannot read ''"),
            ("lime(200)", r"Cannot read '200' in 'lime\(200\)'. Options are written option=value"),
            ("lime(a=1,a=2)", "'a' is given twice"),
            ("lime(a=(1)", "left open"),
            ("two words", "Cannot read 'two words'"),
        ],
    )
    def test_faults(self, text, message):
        with pytest.raises(OptionError, match=message):
            parse_spec(text)

    def test_lists_split_outside_brackets_and_quotes(self):
        assert split_list("a, b(c=1,d=[2,3]),'e,f' ,") == ["a", "b(c=1,d=[2,3])", "'e,f'"]
        with pytest.raises(OptionError, match="closing bracket too many"):
            split_list("a),b")


def test_options_are_checked_against_what_a_function_takes():
    def method(rows, *, samples=10, width=2):
        return rows, samples, width

    assert checked_options({"samples": 3}, method, of="lime") == {"samples": 3}
    with pytest.raises(OptionError, match="no option of lime named 'sample'. Did you mean 'samples'"):
        checked_options({"sample": 3}, method, of="lime")
    with pytest.raises(OptionError, match="no option of lime named 'rows'"):
        checked_options({"rows": 3}, method, of="lime")
