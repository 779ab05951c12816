"""validate: everything that is wrong, at once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.conformance.test_manifest import HERE
from tests.samples.messages import a_file
from tests.surface.stage import Stage

EXAMPLES = sorted((HERE.parent / "examples").glob("*.yaml"))


def written(stage: Stage, content: bytes, name: str = "message.yaml") -> str:
    path = stage.here / name
    path.write_bytes(content)
    return str(path)


def test_a_valid_file_is_valid(stage: Stage) -> None:
    path = written(stage, a_file())

    ran = stage.run("validate", path)

    assert (ran.code, ran.out, ran.err) == (0, f"{path}: valid\n", "")
    assert stage.run("validate", "--quiet", path).out == ""


def test_what_parley_sends_is_valid(stage: Stage) -> None:
    sent = stage.send()

    assert stage.run("validate", str(stage.inbox("codex") / sent["file"])).code == 0


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_of_the_specification_is_valid(stage: Stage, path: Path) -> None:
    ran = stage.run("validate", str(path))

    assert (ran.code, ran.err) == (0, ""), ran.out


def test_all_errors_of_all_files_are_named_at_once(stage: Stage) -> None:
    first = written(stage, a_file("subject", type="shout", priority="P9", created_at_utc='"yesterday"'), "one.yaml")
    second = written(stage, a_file(from_='"../x"'), "two.yaml")
    good = written(stage, a_file(), "good.yaml")

    ran = stage.run("validate", first, good, second)

    codes = {line.split(": ")[1] for line in ran.out.splitlines() if line.startswith(first)}
    assert ran.code == 1
    assert codes == {"missing_field", "bad_type", "bad_priority", "bad_time"}
    assert f"{good}: valid\n" in ran.out
    assert f"{second}: bad_agent_name: from:" in ran.out


def test_as_json_every_error_has_code_field_and_detail(stage: Stage) -> None:
    path = written(stage, a_file("subject", type="shout"))

    (result,) = stage.run("validate", path, "--json").json

    assert (result["file"], result["valid"]) == (path, False)
    assert {(error["code"], error["field"]) for error in result["errors"]} == {
        ("missing_field", "subject"),
        ("bad_type", "type"),
    }
    assert all(error["detail"] for error in result["errors"])


def test_a_missing_body_field_is_named(stage: Stage) -> None:
    path = written(stage, a_file(type="review_request", body="|\n  pr: 1\n  branch: b"))

    ran = stage.run("validate", path)

    assert ran.code == 1
    assert "missing_body_field: body.diff_summary: required by review_request" in ran.out


def test_free_text_in_a_structured_kind_is_a_warning(stage: Stage) -> None:
    path = written(stage, a_file(type="review_request", body="Please look."))

    ran = stage.run("validate", path)

    assert ran.code == 0
    assert ": warning: body: review_request needs the fields" in ran.out
    assert stage.run("validate", path, "--json").json[0]["warnings"][0]["code"] == "body_not_structured"


def test_a_message_on_standard_input_is_checked(stage: Stage) -> None:
    good = stage.run("validate", "-", stdin=a_file())
    bad = stage.run("validate", "-", stdin=a_file("id"))

    assert (good.code, good.out) == (0, "-: valid\n")
    assert (bad.code, bad.out) == (1, "-: missing_field: id: is missing\n")


def test_a_file_that_is_not_there_is_an_error_among_the_others(stage: Stage) -> None:
    good = written(stage, a_file())

    ran = stage.run("validate", "missing.yaml", good)

    assert ran.code == 1
    assert ran.out.splitlines() == ["missing.yaml: not_found: No such file or directory", f"{good}: valid"]


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"id: &a x\nb: *a\n", "alias_forbidden"),
        (b"!!python/object/apply:os.system [id]\n", "tag_forbidden"),
        (a_file() + b'from: "bob"\n', "duplicate_key"),
        (a_file() + b"---\n" + a_file(), "multi_document"),
        (b"x: " + b"[" * 4_000, "too_deep"),
        (b"x: [" + b"a, " * 6_000 + b"]\n", "too_many_nodes"),
        (b"x" * (5 * 1024 * 1024), "too_large"),
        (b"\xff\xfe\x00x", "not_text"),
        (a_file() + b"x: a\x00b\n", "not_text"),
        (b"- a\n- b\n", "not_a_mapping"),
        (b'"unclosed', "not_yaml"),
        (b"", "not_a_mapping"),
        (a_file() + b'auth: "e30"\n', "signature_invalid"),
    ],
)
def test_hostile_content_is_named_by_its_code(stage: Stage, content: bytes, code: str) -> None:
    (result,) = stage.run("validate", written(stage, content), "--json").json

    assert [error["code"] for error in result["errors"]] == [code]


def test_a_pipe_in_place_of_a_file_does_not_keep_it_waiting(stage: Stage) -> None:
    os.mkfifo(stage.here / "pipe.yaml")

    ran = stage.run("validate", "pipe.yaml", ".", "/dev/zero")

    assert ran.code == 1
    assert [line.split(": ")[1] for line in ran.out.splitlines()] == ["not_regular"] * 3


def test_validating_needs_no_project(stage: Stage) -> None:
    stage.patch.delenv("PARLEY_HOME")

    assert stage.run("validate", written(stage, a_file())).code == 0


def test_the_limits_of_the_settings_hold(stage: Stage) -> None:
    stage.patch.setenv("PARLEY_SUBJECT_CHARS", "5")

    assert stage.run("validate", written(stage, a_file())).code == 1


def test_without_a_file_the_usage_is_told(stage: Stage) -> None:
    ran = stage.run("validate")

    assert (ran.code, ran.error) == (2, "invalid")
    assert "parley validate --help" in ran.err
