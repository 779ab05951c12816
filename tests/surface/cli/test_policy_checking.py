"""`parley policy check` and `diff` on files, without a server."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import parley
from tests.surface.stage import Stage

DEFAULT = Path(parley.__file__).parent / "policies" / "enterprise.yaml"
BROKEN = "agent-to-agent:\n  max_round: 2\n  cross_org: maybe\n"


def written(stage: Stage, name: str, text: str) -> str:
    path = stage.here / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return name


def said(*lines: str) -> str:
    return "agent-to-agent:\n" + "".join(f"  {line}\n" for line in lines)


def test_the_policy_that_comes_along_is_valid(stage: Stage) -> None:
    ran = stage.run("policy", "check", str(DEFAULT))

    assert (ran.code, ran.out, ran.err) == (0, f"{DEFAULT}: valid\n", "")
    assert stage.run("policy", "check", "--quiet", str(DEFAULT)).out == ""


def test_everything_that_is_wrong_is_named_by_file_line_and_key(stage: Stage) -> None:
    good, bad = written(stage, "good.yaml", said("max_rounds: 1")), written(stage, "bad.yaml", BROKEN)

    ran = stage.run("policy", "check", good, bad, "nowhere.yaml")

    assert ran.code == 1
    assert ran.out.splitlines() == [
        "good.yaml: valid",
        "bad.yaml:2: max_round: is not known (did you mean max_rounds?)",
        'bad.yaml:3: cross_org: must be false or true or approval, not "maybe"',
        "nowhere.yaml: No such file or directory",
    ]


def test_a_folder_is_checked_with_everything_in_it(stage: Stage) -> None:
    written(stage, "rules/enterprise/default.yaml", said("disclosure: A machine."))
    written(stage, "rules/org/sales.yaml", said("disclosure: A person."))
    written(stage, "rules/org/notes.txt", "nothing")

    ran = stage.run("policy", "check", "rules")

    assert (ran.code, ran.out.splitlines()) == (
        1,
        [
            "rules/enterprise/default.yaml: valid",
            "rules/org/sales.yaml:2: disclosure: only the enterprise's policy has this key",
        ],
    )


def test_as_json_every_flaw_has_its_line(stage: Stage) -> None:
    found = stage.run("policy", "check", "--json", written(stage, "bad.yaml", BROKEN)).json

    assert [(one["file"], one["valid"]) for one in found] == [("bad.yaml", False)]
    assert [(flaw["line"], flaw["key"]) for flaw in found[0]["flaws"]] == [(2, "max_round"), (3, "cross_org")]


@pytest.mark.parametrize("name", ["empty", "binary", "pipe"])
def test_what_is_no_policy_at_all_is_named_too(stage: Stage, name: str) -> None:
    path = stage.here / f"{name}.yaml"
    if name == "pipe":
        os.mkfifo(path)
    else:
        path.write_bytes({"empty": b"", "binary": b"a\n\xff\xfe"}[name])

    ran = stage.run("policy", "check", path.name)

    assert ran.code == 1
    assert ran.out.startswith(path.name)


def test_an_empty_folder_is_no_success(stage: Stage) -> None:
    (stage.here / "nothing").mkdir()

    ran = stage.run("policy", "check", "nothing")

    assert (ran.code, ran.error) == (3, "not_found")


def test_two_files_are_compared_key_by_key_and_by_what_changes_in_force(stage: Stage) -> None:
    old = written(stage, "old.yaml", said("max_rounds: 3", "cross_org: false"))
    new = written(stage, "new.yaml", said("max_rounds: 2", "cross_org: approval", "hop_limit: 8"))

    shown = stage.run("policy", "diff", old, new)
    found = stage.run("policy", "diff", old, new, "--json").json

    assert found["documents"] == [
        {"document": "enterprise/old", "key": "max_rounds", "old": 3, "new": 2},
        {"document": "enterprise/old", "key": "cross_org", "old": False, "new": "approval"},
        {"document": "enterprise/old", "key": "hop_limit", "old": None, "new": 8},
    ]
    assert [(one["for"], one["key"]) for one in found["effective"]] == [
        ("enterprise", "max_rounds"),
        ("enterprise", "cross_org"),
    ]
    assert shown.code == 0
    assert shown.out.splitlines()[1].split() == ["enterprise/old", "max_rounds", "3", "2"]


def test_two_folders_are_compared_with_what_changes_for_whom(stage: Stage) -> None:
    for folder, rounds in (("old", 3), ("new", 1)):
        written(stage, f"{folder}/enterprise/default.yaml", said(f"max_rounds: {rounds}"))
        written(stage, f"{folder}/org/sales.yaml", said("max_rounds: 2"))

    found = stage.run("policy", "diff", "old", "new", "--json").json

    assert [(one["for"], one["old"], one["new"]) for one in found["effective"]] == [
        ("enterprise", 3, 1),
        ("org/sales", 2, 1),
    ]
    assert stage.run("policy", "diff", "old", "old").out.splitlines() == [
        "The documents are equal.",
        "",
        "No change in effect.",
    ]


def test_a_broken_file_cannot_be_compared(stage: Stage) -> None:
    ran = stage.run("policy", "diff", written(stage, "bad.yaml", BROKEN), str(DEFAULT))

    assert (ran.code, ran.error) == (2, "policy_invalid")
    assert "bad.yaml:2: max_round" in ran.err


@pytest.mark.parametrize("name", ["sales", "orgs/sales", "org/", "org/../x"])
def test_a_name_that_is_none_is_refused_before_anybody_is_asked(stage: Stage, name: str) -> None:
    ran = stage.run("policy", "show", name)

    assert (ran.code, ran.error) == (2, "invalid")
