"""Keys of a file are read one by one; what is wrong is noted, and the reading goes on."""

from __future__ import annotations

import pytest

from parley.domain.limits import DEFAULT_LIMITS
from parley.domain.message.message import Value
from parley.wire.files.document import FLAGS, Reading, dotted, line_of, show_value
from parley.wire.yaml.strict import Path


def reading(text: str) -> Reading:
    return Reading(text, "x.yaml", DEFAULT_LIMITS, {"colour": "write color"})


def said(document: Reading) -> list[str]:
    return [str(flaw) for flaw in document.flaws]


def test_what_is_as_it_should_be_is_given_back_and_nothing_is_noted() -> None:
    document = reading("n: 3\nflag: true\ntime: 5m\nword: yes it is\nlist: [a, b]\n")
    fields = document.fields((), document.document, ("n", "flag", "time", "word", "list"), needs=("n",))

    assert document.number(("n",), fields["n"], 1, 5) == 3
    assert document.one_of(("flag",), fields["flag"], FLAGS, plain=True) is True
    assert document.duration(("time",), fields["time"]) == 300.0
    assert document.line(("word",), fields["word"], 20) == "yes it is"
    assert document.items(("list",), fields["list"], document.name) == ("a", "b")
    assert document.flaws == []


def test_what_is_not_there_is_no_mistake_unless_it_is_needed() -> None:
    document = reading("a: 1\n")

    assert document.number(("n",), None, 1, 5) is None
    assert (document.duration(("n",), None), document.items(("n",), None, document.name)) == (None, ())
    assert (document.line(("n",), None, 5), document.text(("n",), None), document.mapping(("n",), None)) == ("", "", {})
    assert document.flaws == []
    document.fields((), document.document, ("a", "b"), needs=("b",))
    assert said(document) == ["x.yaml:1: b: is not there"]


def test_an_unknown_key_is_named_with_what_was_probably_meant_or_what_to_write_instead() -> None:
    document = reading("titel: 1\ncolour: red\nxyz: 1\n")

    assert document.fields((), document.document, ("title",)) == {}
    assert said(document) == [
        "x.yaml:1: titel: is not known (did you mean title?)",
        "x.yaml:2: colour: is not known (write color)",
        "x.yaml:3: xyz: is not known (there is title)",
    ]


def test_a_key_without_a_value_is_wrong_unless_it_may_be_empty() -> None:
    document = reading("a:\nb:\n")

    assert document.fields((), document.document, ("a", "b"), empty=("b",)) == {"b": None}
    assert said(document) == ["x.yaml:1: a: has no value"]


@pytest.mark.parametrize(("text", "number"), [("0", None), ("6", None), ('"3"', None), ("3.0", None), ("[3]", None)])
def test_a_number_is_plain_whole_and_within_its_bounds(text: str, number: int | None) -> None:
    document = reading(f"n: {text}\n")

    assert document.number(("n",), document.document["n"], 1, 5) is number
    assert said(document)[0].startswith("x.yaml:1: n: must be a whole number from 1 to 5, not ")


def test_values_without_quotes_are_what_json_would_have() -> None:
    document = reading("a: [1, -2, 1.5, 1e3, true, null, yes, 0x1, 007, \"1\", 'true', {b: 2}, .inf, 1_000]\n")

    typed = document.typed(("a",), document.document["a"])

    assert typed == [1, -2, 1.5, 1000.0, True, None, "yes", "0x1", "007", "1", "true", {"b": 2}, ".inf", "1_000"]


def test_what_stands_on_a_line_that_cannot_be_read_is_not_complained_about_twice() -> None:
    document = reading("a: &x 1\nb: 2\n")

    document.wrong(("a",), "wrong_value", "must be 2")
    document.wrong(("b",), "wrong_value", "must be 1")

    assert said(document) == ["x.yaml:1: a: anchors and aliases are not allowed", "x.yaml:2: b: must be 1"]
    assert document.blamed == {("a",), ("b",)}


def test_a_list_has_each_item_once_and_not_too_many() -> None:
    document = reading(f"a: [x, x]\nb: [{', '.join(f'n{n}' for n in range(257))}]\n")

    document.items(("a",), document.document["a"], document.name)
    document.items(("b",), document.document["b"], document.name)

    assert said(document) == [
        'x.yaml:1: a[1]: "x" is in the list twice',
        "x.yaml:2: b: has more than 256 items",
    ]


def test_a_path_is_written_as_people_say_it() -> None:
    assert dotted(("agents", "codex", "on_message", 0, "handler")) == "agents.codex.on_message[0].handler"
    assert dotted(()) == ""


def test_a_key_that_is_not_there_has_the_line_of_the_nearest_around_it() -> None:
    lines: dict[Path, int] = {("a",): 3, ("a", "b"): 4}

    assert [line_of(lines, path) for path in (("a", "b", "c"), ("a", "x"), ("x",))] == [4, 3, 1]


def test_a_value_is_shown_short() -> None:
    given: list[Value] = ["x" * 50, None, [], {}]

    assert [show_value(one) for one in given] == [f'"{"x" * 39}…"', '"nothing"', "a list", "a mapping"]
