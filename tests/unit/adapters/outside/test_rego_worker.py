"""The process that asks Rego: what compiles, what does not and where, and answers that are exactly messages."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import parley
from parley.adapters.outside.rego import SAMPLE

pytest.importorskip("regopy")

WORKER = Path(parley.__file__).parent / "adapters" / "outside" / "rego_worker.py"
HEAD = "package parley\nimport rego.v1\n"
SECRET = HEAD + 'deny contains "restricted stays here" if input.level == "restricted"\n'


def conversation(modules: dict[str, str], *asked: list[dict[str, Any]], **environment: str) -> list[Any]:
    """What it answers, line by line."""
    lines = [{"modules": modules, "sample": SAMPLE}, *asked]
    ran = subprocess.run(
        [sys.executable, "-P", str(WORKER)],
        input="".join(json.dumps(one) + "\n" for one in lines).encode(),
        capture_output=True,
        env=environment,
        timeout=60,
        check=False,
    )
    assert ran.stderr == b""
    return [json.loads(one) for one in ran.stdout.splitlines()]


def at(**changes: Any) -> list[dict[str, Any]]:  # noqa: ANN401
    return [{**SAMPLE, **changes}]


def test_each_input_is_answered_with_the_messages_of_both_sets() -> None:
    text = SECRET + 'hold contains sprintf("round %d", [input.round]) if input.round > 1\n'

    answers = conversation({"a.rego": text}, at(level="restricted", round=2), at() + at(round=3))

    assert answers == [
        {"ready": True},
        [{"deny": ["restricted stays here"], "hold": ["round 2"]}],
        [{"deny": [], "hold": []}, {"deny": [], "hold": ["round 3"]}],
    ]


def test_rules_may_lie_in_several_modules() -> None:
    modules = {
        "a.rego": HEAD + 'import data.acme.secret\ndeny contains "no" if secret[input.level]\n',
        "b.rego": 'package acme\nimport rego.v1\nsecret contains "restricted"\n',
    }

    assert conversation(modules, at(level="restricted"))[1] == [{"deny": ["no"], "hold": []}]


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        (HEAD + 'deny contains "a" if {{ input.level ==\n', 3, "unclosed"),
        (HEAD + 'deny contains "a if input.level=="restricted"\n', 3, "Invalid rule head"),
        ('package parley\ndeny contains "x" if true\ndeny["a"] { true }\n', 0, "must be sets of messages"),
        (HEAD + 'hold contains "x" if true\ndeny := true\n', 0, "must be sets of messages"),
        (HEAD + "allow := true\n", 0, "neither deny nor hold"),
        ('package acme\nimport rego.v1\ndeny contains "a" if true\n', 0, "no module is of the package parley"),
        ("", 0, "no module is of the package parley"),
        (HEAD + 'deny contains "a" if nothing_such(input.level)\n', 0, "they call what is not there"),
        (HEAD + 'x if y\ny if x\ndeny contains "a" if x\n', 0, "in a circle"),
        (SECRET + "\nhold contains json.marshal(opa.runtime()) if true\n", 5, "opa.runtime"),
    ],
)
def test_rules_that_cannot_be_used_are_refused_with_their_place(text: str, line: int, said: str) -> None:
    (answer,) = conversation({"acme.rego": text}, at())

    assert said in answer["error"]
    assert answer["line"] == line
    assert answer["file"] in ("", "acme.rego")


@pytest.mark.parametrize(
    "text",
    [
        'deny contains "a" if to_number(input.to) > 3\n',
        'deny contains "a" if 1 / (input.round - 1) > 3\n',
        'deny contains "a" if input.level + 1 > 3\n',
        'x := 1 if true\nx := 2 if input.level\ndeny contains "a" if x == 1\n',
        "deny contains 5 if true\n",
        'hold contains {"a": 1} if true\n',
        "deny contains null if true\n",
    ],
)
def test_what_cannot_be_evaluated_and_what_is_no_message_has_failed(text: str) -> None:
    ready, (answer,) = conversation({"a.rego": HEAD + text}, at())

    assert (ready, list(answer)) == ({"ready": True}, ["failed"])


def test_what_the_library_writes_by_itself_is_no_answer() -> None:
    noisy = HEAD + 'deny contains "a" if { print("hello"); input.level == "restricted" }\n'

    assert conversation({"a.rego": noisy}, at())[1:] == [[{"deny": [], "hold": []}]]


def test_without_the_library_it_says_so(tmp_path: Path) -> None:
    (tmp_path / "regopy.py").write_text("raise ImportError\n")

    assert conversation({"a.rego": SECRET}, PYTHONPATH=str(tmp_path)) == [{"missing": True}]


def test_it_knows_nothing_of_ours() -> None:
    text = WORKER.read_text()

    assert "import parley" not in text
    assert "from parley" not in text
