"""Accept liberally, and read what is hostile without harm."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import yaml

from parley.domain.errors.errors import Unreadable
from parley.domain.limits import HARD_FILE_BYTES, Limits
from parley.domain.message.compose import EMITTED_EXTRAS
from parley.domain.message.message import Kind
from parley.wire.oacp.format import OacpFormat
from parley.wire.yaml.write import mapping_text, quoted
from tests.conformance.oacp import FORMAT, accepted, doubted, rejected
from tests.samples.messages import STRUCTURED, a_file, fields_of


def refusal(content: bytes) -> str:
    """The code with which a file is refused, by a listing and by a full reading alike."""
    codes = set()
    for verb in (FORMAT.decode, FORMAT.heading, FORMAT.inspect):
        with pytest.raises(Unreadable) as caught:
            verb(content)
        codes.add(caught.value.code)
    assert len(codes) == 1
    return codes.pop()


@pytest.mark.requirement("D-ID-ACCEPT")
def test_any_id_of_1_to_200_characters_is_taken() -> None:
    for foreign in ("7", "ü/../x", "a1b2c3d4-5678-9abc-def0-1234567890ab", "x" * 200):
        assert accepted(a_file(id=f'"{foreign}"')).id == foreign
    assert rejected(a_file(id='""')) == {("missing_field", "id")}
    assert rejected(a_file(id="x" * 201)) == {("too_long", "id")}


@pytest.mark.requirement("D-BODY-ACCEPT")
@pytest.mark.parametrize("kind", STRUCTURED)
def test_a_body_is_taken_as_text_or_mapping_and_structured_text_is_parsed(kind: Kind) -> None:
    text = mapping_text(STRUCTURED[kind])
    indented = "\n" + "".join(f"  {line}\n" for line in text.splitlines())

    assert accepted(a_file(type=kind.value, body=quoted(text))).body == STRUCTURED[kind]
    assert accepted(a_file(type=kind.value, body=indented.rstrip())).body == STRUCTURED[kind]
    assert accepted(a_file(type=kind.value, body='"just words"')).body == "just words"
    assert accepted(a_file(body="{a: [b]}")).body == {"a": ["b"]}


@pytest.mark.requirement("D-RELATED-PR-ACCEPT")
@pytest.mark.parametrize("given", ["42", '"#42"', '"https://github.com/kiloloop/oacp/pull/42"'])
def test_a_pull_request_is_taken_as_number_hash_or_url(given: str) -> None:
    assert doubted(a_file(related_pr=given)) == set()
    assert accepted(a_file(related_pr=given)).related_pr == given.strip('"')


@pytest.mark.requirement("D-CHANNEL-ACCEPT")
def test_a_channel_of_up_to_64_characters_is_taken_without_a_doubt() -> None:
    assert doubted(a_file(channel='"two words, ' + "x" * 53 + '"')) == set()
    assert doubted(a_file(channel="x" * 65)) == {("too_long", "channel")}


@pytest.mark.requirement("D-UNKNOWN-FIELDS-ACCEPT")
def test_unknown_fields_are_kept_and_shown() -> None:
    message = accepted(a_file(custom="{a: [b, c]}", other='"x"'))

    assert message.extras == {"custom": {"a": ["b", "c"]}, "other": "x"}
    assert FORMAT.fields(message)["custom"] == {"a": ["b", "c"]}
    assert doubted(a_file(custom="x")) == set()


@pytest.mark.requirement("D-TELEMETRY-ACCEPT")
def test_hints_and_telemetry_are_kept() -> None:
    given = dict.fromkeys(EMITTED_EXTRAS, "12.50")

    assert set(given) == {
        "autonomy_hint", "model", "turns", "input_tokens", "output_tokens", "wall_time_s", "est_cost_usd"
    }  # fmt: skip
    assert accepted(a_file(**given)).extras == given


@pytest.mark.requirement("D-FOLLOW-UP-ACCEPT")
def test_a_follow_up_is_a_continuation_with_a_parent_and_free_text_else_its_schema() -> None:
    continuation = a_file(type="follow_up", parent_message_id="m0", body='"Note: it is done"')
    without_parent = a_file(type="follow_up", body='"Note: it is done"')
    half = a_file(type="follow_up", parent_message_id="m0", body="{owner: claude}")

    assert (accepted(continuation).body, doubted(continuation)) == ("Note: it is done", set())
    assert ("missing_body_field", "body.owner") in doubted(without_parent)
    assert ("missing_body_field", "body.summary") in doubted(half)


@pytest.mark.requirement("D-HANDOFF-COMPLETE-ACCEPT")
@pytest.mark.parametrize("tests_run", ["true", '"yes"', "no", "False"])
@pytest.mark.parametrize("pr", ["42", '"#42"', '"https://github.com/kiloloop/oacp/pull/42"', '"not yet"'])
def test_a_finished_handoff_is_taken_with_any_truth_and_any_pull_request(tests_run: str, pr: str) -> None:
    body = f"{{issue: '#38', pr: {pr}, branch: main, tests_run: {tests_run}, next_owner: claude}}"
    content = a_file(type="handoff_complete", body=body)

    message = accepted(content)

    assert isinstance(message.body, dict)
    assert isinstance(message.body["tests_run"], bool)
    assert message.body["pr"] == ("#42" if pr == "42" else pr.strip('"'))
    assert doubted(content) == set()


@pytest.mark.requirement("D-HANDOFF-LISTS-ACCEPT")
def test_the_lists_of_a_handoff_are_taken_with_strings_or_mappings() -> None:
    body = fields_of(Kind.HANDOFF, artifacts_to_review=["PR #42", {"path": "src/auth.ts"}])

    content = a_file(type="handoff", body=quoted(mapping_text(body)))

    assert doubted(content) == set()
    message = accepted(content)
    assert isinstance(message.body, dict)
    assert message.body["artifacts_to_review"] == ["PR #42", "path: src/auth.ts"]


def sized(size: int) -> bytes:
    return a_file(body='"' + "x" * (size - len(a_file(body='""'))) + '"')


@pytest.mark.requirement("D-READ-SIZE")
def test_a_file_has_at_most_256_kib_and_never_more_than_1_mib() -> None:
    """A65"""
    assert accepted(sized(256 * 1024)).id
    assert refusal(sized(256 * 1024 + 1)) == "too_large"
    generous = OacpFormat(Limits(file_bytes=10 * HARD_FILE_BYTES))
    assert generous.decode(sized(1024 * 1024)).id
    with pytest.raises(Unreadable, match="1048576"):
        generous.decode(sized(1024 * 1024 + 1))


@pytest.mark.parametrize(
    ("hostile", "code"),
    [
        pytest.param(b"---\nid: other\n", "multi_document", marks=pytest.mark.requirement("D-READ-ONE-DOCUMENT")),
        pytest.param(b"x: &a y\n", "alias_forbidden", marks=pytest.mark.requirement("D-READ-NO-ANCHORS")),
        pytest.param(b"x: *a\n", "alias_forbidden", marks=pytest.mark.requirement("D-READ-NO-ANCHORS")),
        pytest.param(b"<<: {x: y}\n", "alias_forbidden", marks=pytest.mark.requirement("D-READ-NO-MERGE-KEYS")),
        pytest.param(b"x: !!str y\n", "tag_forbidden", marks=pytest.mark.requirement("D-READ-NO-TAGS")),
        pytest.param(
            b"x: !!python/object/apply:os.system ['x']\n",
            "tag_forbidden",
            marks=pytest.mark.requirement("D-READ-NO-TAGS"),
        ),
        pytest.param(b"from: mallory\n", "duplicate_key", marks=pytest.mark.requirement("D-READ-NO-DUPLICATE-KEYS")),
        pytest.param(b"x: {a: 1, a: 2}\n", "duplicate_key", marks=pytest.mark.requirement("D-READ-NO-DUPLICATE-KEYS")),
        pytest.param(b"x: " + b"[" * 16 + b"]" * 16 + b"\n", "too_deep", marks=pytest.mark.requirement("D-READ-DEPTH")),
        pytest.param(
            b"x: [" + b"y, " * 5_000 + b"y]\n", "too_many_nodes", marks=pytest.mark.requirement("D-READ-NODES")
        ),
    ],
)
def test_a_message_with_something_hostile_behind_it_is_refused(hostile: bytes, code: str) -> None:
    """A10, A11, A62, A63, A83"""
    assert accepted(a_file()).sender == "claude"
    assert refusal(a_file() + hostile) == code


@pytest.mark.requirement("D-READ-DEPTH")
def test_sixteen_levels_are_taken() -> None:
    assert accepted(a_file() + b"x: " + b"[" * 15 + b"]" * 15 + b"\n").extras


@pytest.mark.requirement("D-READ-NODES")
def test_five_thousand_values_are_taken() -> None:
    """The mapping, eight fields and one more are 19; the list's items are the rest."""
    assert accepted(a_file() + b"x: [" + b"y, " * 4_980 + b"y]\n").extras
    assert refusal(a_file() + b"x: [" + b"y, " * 4_981 + b"y]\n") == "too_many_nodes"


@pytest.mark.requirement("D-READ-EVENTS")
def test_limits_are_counted_on_events_and_nothing_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    read = 0
    real = yaml.parse

    def counting(text: str, Loader: type[yaml.Loader]) -> Iterator[yaml.Event]:  # noqa: N803
        nonlocal read
        for event in real(text, Loader=Loader):
            read += 1
            yield event

    def built(*_: object, **__: object) -> None:
        pytest.fail("something was built")

    monkeypatch.setattr(yaml, "parse", counting)
    for name in ("load", "compose"):
        monkeypatch.setattr(yaml, name, built)
    with pytest.raises(Unreadable) as caught:
        FORMAT.decode(b"x: [" + b"y, " * 60_000 + b"y]\n")

    assert caught.value.code == "too_many_nodes"
    assert read <= 5_010


@pytest.mark.requirement("D-READ-STRINGS")
def test_all_scalars_are_strings_until_the_schema_speaks() -> None:
    """A64"""
    content = a_file(to="no", id="12_3", subject="12:30:45", channel="2026-03-13", x="0x1F", y="~", z="1e400")

    message = accepted(content)

    assert (message.to, message.id, message.subject, message.tag) == (("no",), "12_3", "12:30:45", "2026-03-13")
    assert message.extras == {"x": "0x1F", "y": None, "z": "1e400"}


@pytest.mark.requirement("D-READ-PARSER-ERRORS")
@pytest.mark.parametrize(
    "content",
    [
        pytest.param(a_file() + b"x: " + b"[" * 4_000 + b"]" * 4_000 + b"\n", id="deep nesting"),
        pytest.param(a_file() + b"x: [unclosed\n", id="unclosed"),
        pytest.param(a_file() + b'x: "\\ud800"\n', id="half a character"),
        pytest.param(a_file() + b'x: "\\UFFFFFFFF"\n', id="no character at all"),
        pytest.param(b"%YAML 9.9\n---\n" + a_file(), id="another YAML"),
        pytest.param(a_file() + b"x: \xc2\x80\n", id="a control character"),
    ],
)
def test_whatever_the_parser_raises_makes_a_bad_file_and_no_crash(content: bytes) -> None:
    """A63"""
    assert refusal(content) in {"too_deep", "not_yaml"}


@pytest.mark.requirement("D-READ-PARSER-ERRORS")
def test_a_number_of_5000_digits_is_just_text() -> None:
    """A63"""
    assert accepted(a_file(x="1" * 5_000)).extras == {"x": "1" * 5_000}
