"""Names, specs and lists, as people write them."""

import pytest

from didact.errors import OptionError, UnknownNameError
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
