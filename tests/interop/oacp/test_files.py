"""`parley oacp inbox`, `watch` and `validate` beside the real tool, on files of every sort."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.interop.oacp.pair import Case, Pair, make_pair, make_workspace

GOOD = {
    "id": "msg-1",
    "from": "alice",
    "to": "bob",
    "type": "review_lgtm",
    "priority": "P2",
    "created_at_utc": '"2026-01-01T00:00:00Z"',
    "subject": "s",
    "body": "b",
}
SIGNED = 'auth: "eyJzaWduYXR1cmVzIjpbeyJwcm90ZWN0ZWQiOiJlMzAiLCJzaWduYXR1cmUiOiJlMzAifV19"\n'
# File name -> content: everything a reader may meet in an inbox.
FILES: dict[str, bytes] = {
    "good.yaml": "".join(f"{key}: {value}\n" for key, value in GOOD.items()).encode(),
    ".hidden.yaml": b"subject: dot files count\n",
    "bad.yaml": b"a: [\n",
    "blank.yaml": b"\n# nothing\n",
    "bom.yaml": b"\xef\xbb\xbfsubject: bom\n",
    "empty.yaml": b"",
    "escape.yaml": b'subject: "a|b \\e[31m red \\u202e \\t"\nfrom: "\\x07"\n',
    "list.yaml": b"- a\n",
    "long.yaml": b"subject: " + b"y" * 201 + b"\n",
    "fits.yaml": b"subject: " + b"y" * 200 + b"\n",
    "multi.yaml": b"a: 1\n---\nb: 2\n",
    "nested.yaml": b"subject: [a, b]\ntype: {a: b}\nfrom: ~\npriority: null\n",
    "old.yaml": b'subject: old\ncreated_at_utc: "2026-01-01T00:00:00Z"\n',
    "odd_time.yaml": b"subject: odd\ncreated_at_utc: 2026-01-01\n",
    "scalar.yaml": b"hello\n",
    "signed.yaml": b"subject: signed\n" + SIGNED.encode(),
    "tab.yaml": b"subject: x\nbody: |\n  a\n\tb\n",
    "unicode.yaml": "subject: é — 漢字\n".encode(),
    "wide \u00e9.yaml": b"subject: strange name\n",
    "bytes.yaml": b"\xff\xfe",
    "not.yml": b"subject: another ending\n",
}
OLD = 1_700_000_000


def fill(place: Path) -> None:
    inbox = place / "h/projects/p/agents/bob/inbox"
    for name, content in FILES.items():
        (inbox / name).write_bytes(content)
        os.utime(inbox / name, (OLD, OLD))
    (inbox / "folder.yaml").mkdir()


def configured(text: str) -> Case:
    def before(place: Path) -> None:
        fill(place)
        (place / "h/projects/p/agents/bob/config.yaml").write_text(text)

    return Case(("inbox", "p", "--agent", "bob", "--json"), before=before)


def file_with(changes: Mapping[str, str | None], end: str = "\n") -> Case:
    fields = {**GOOD, **changes}
    text = "\n".join(f"{key}: {value}" for key, value in fields.items() if value is not None) + end

    def before(place: Path) -> None:
        (place / "m.yaml").write_text(text, newline="")

    return Case(("validate", "./m.yaml"), before=before)


def stored(name: str) -> Case:
    return Case(("validate", name), before=lambda place: (place / name).write_bytes(FILES[name]))


LISTINGS = {
    "a listing shows every file": Case(("inbox", "p", "--agent", "bob"), before=fill),
    "a listing in JSON says why a file is bad": Case(("inbox", "p", "--agent", "bob", "--json"), before=fill),
    "a listing of all agents": Case(("inbox", "p", "--all"), before=fill),
    "under warn each message says whether it is signed": configured("signing: {verify_mode: Warn}\n"),
    "under enforce what cannot be verified is held": configured("signing: {verify_mode: enforce}\n"),
    "with an unreadable policy everything is held": configured("signing: [\n"),
    "with a policy that is no mapping everything is held": configured("- signing\n"),
    "an unknown mode is off": configured("signing: {verify_mode: maybe}\n"),
}

WATCHES = {
    "nothing old is news": (("--since", "now"),),
    "everything can be news": (("--since", "epoch"), ()),
    "everything can be news in JSON": (("--since", "epoch", "--json"), ("--json",)),
    "a state of one's own": (("--state-id", "mine", "--since", "2023-01-01"), ("--state-id", "mine")),
    "a duration back": (("--since", "1h"), ("--since", "epoch")),
}

CHECKS = {
    "a good message is valid": file_with({}),
    "nothing is said about a good one": file_with({})._replace(args=("validate", "m.yaml", "--quiet")),
    **{f"validate {name}": stored(name) for name in FILES if " " not in name},
    "fields nobody knows": file_with({"zeta": "1", "alpha": "[x]"}),
    **{f"no {name}": file_with({name: None}) for name in GOOD},
    **{f"an empty {name}": file_with({name: '""'}) for name in GOOD},
    **{f"{name} as a list": file_with({name: "[a]"}) for name in GOOD},
    "to as a mapping": file_with({"to": "{a: b}"}),
    "to nobody": file_with({"to": "[]"}),
    "to a bad name": file_with({"to": '"a b"'}),
    "to bad names": file_with({"to": '[bob, "", "a b", alice]'}),
    "to too many": file_with({"to": "[a, b, c, d, e, f, g, h, i, j, k]"}),
    "a handoff to two": file_with({"type": "handoff", "to": "[bob, carol]"}),
    "an unknown sender, type and priority": file_with({"from": "a/b", "type": "x", "priority": "p1"}),
    "telemetry where it does not belong": file_with({"type": "question", "model": "x", "turns": "1"}),
    "telemetry that is none": file_with(
        {
            "model": '""',
            "turns": "-1",
            "input_tokens": "x",
            "output_tokens": "1.5",
            "wall_time_s": "nan",
            "est_cost_usd": "-1",
        }
    ),
    "telemetry as lists": file_with({"model": "[a]", "turns": "[1]", "wall_time_s": "{a: b}"}),
    "an unknown hint": file_with({"autonomy_hint": "x"}),
    "times in other forms": file_with({"created_at_utc": "2026-01-01", "expires_at": '"2026-01-01T00:00:00+00:00"'}),
    "times that never were": file_with(
        {"created_at_utc": '"2026-02-30T00:00:00Z"', "expires_at": '"2026-13-01T00:00:00Z"'}
    ),
    "references in other forms": file_with(
        {"related_pr": "'#42'", "conversation_id": "review-pr-42", "channel": "a b"}
    ),
    "optional fields may be empty": file_with(
        dict.fromkeys(("related_pr", "conversation_id", "channel", "expires_at", "autonomy_hint", "context_keys"), '""')
    ),
    "optional fields as lists": file_with(
        dict.fromkeys(
            ("related_packet", "related_pr", "conversation_id", "context_keys", "channel", "expires_at"), "[a]"
        )
    ),
    "texts that are too long": file_with({"id": "x" * 201, "subject": "x" * 201, "body": "x" * 20_001}),
    "a long parent": file_with({"parent_message_id": "x" * 201}),
    **{
        f"the trailer {value}": file_with({"auth": value})
        for value in ('""', '"zz"', '"!!"', "[a]", "zz", '"e30"', '"W10"', '"eyJzaWduYXR1cmVzIjpbXX0"', SIGNED[6:-1])
    },
    "a trailer that is not last": file_with({"auth": '"e30"', "channel": "x"}),
    "a trailer without a line end": file_with({"auth": '"e30"'}, end=""),
    "a trailer with a carriage return": file_with({"auth": '"e30"'}, end="\r\n"),
}


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_workspace(tmp_path_factory.mktemp("workspace"))


@pytest.fixture
def pair(workspace: Path, tmp_path: Path) -> Pair:
    return make_pair(workspace, tmp_path)


@pytest.mark.parametrize("case", (LISTINGS | CHECKS).values(), ids=(LISTINGS | CHECKS).keys())
def test_both_tools_see_the_same(pair: Pair, case: Case) -> None:
    real, drop_in = pair.run(case)

    assert drop_in == real


@pytest.mark.parametrize("looks", WATCHES.values(), ids=WATCHES.keys())
def test_both_tools_tell_the_same_news(pair: Pair, looks: tuple[tuple[str, ...], ...]) -> None:
    for place in pair:
        fill(place)

    for options in looks:
        real, drop_in = pair.run(Case(("watch", "--agent", "bob", "--project", "p", *options)))
        assert drop_in == real

    real_state, our_state = (
        {path.name: path.read_text() for path in (place / "h/projects/p/state/watch").iterdir()} for place in pair
    )
    assert our_state == real_state


def test_both_tools_tell_what_has_left(pair: Pair) -> None:
    look = ("watch", "--agent", "bob", "--all-projects", "--json", "--show-archived", "--since", "epoch")
    for place in pair:
        fill(place)
    pair.run(Case(look))

    def change(place: Path) -> None:
        inbox = place / "h/projects/p/agents/bob/inbox"
        (inbox / "good.yaml").rename(inbox / "archive/good.yaml")
        (inbox / "old.yaml").unlink()
        (inbox / "unicode.yaml").write_text("a: [\n")
        (inbox / "new.yaml").write_text("subject: new\n")

    real, drop_in = pair.run(Case(look, before=change))

    assert drop_in == real
    assert drop_in.out.count("message_archived") == 3


@pytest.mark.parametrize("text", ["{", "[]", '{"messages": []}', '{"version": "x"}'])
def test_both_tools_refuse_a_broken_state_and_leave_it(pair: Pair, text: str) -> None:
    def spoil(place: Path) -> None:
        folder = place / "h/projects/p/state/watch"
        folder.mkdir(parents=True)
        (folder / "bob.json").write_text(text)

    real, drop_in = pair.run(Case(("watch", "--agent", "bob", "--project", "p", "--json"), before=spoil))

    assert drop_in == real
    assert (pair.ours / "h/projects/p/state/watch/bob.json").read_text() == text


def test_both_tools_can_take_turns_at_one_state(pair: Pair, tmp_path: Path) -> None:
    fill(pair.theirs)
    look = Case(("watch", "--agent", "bob", "--project", "p", "--since", "epoch"))
    pair.run(look)
    shutil.rmtree(pair.ours)
    shutil.copytree(pair.theirs, pair.ours)

    real, drop_in = pair.run(look)

    assert drop_in.out == real.out == ""
