"""What people see on a terminal: colours where they help, and nothing that a message could do to it."""

from __future__ import annotations

import json
import os
import re

import pytest

from parley.cli.output import json_text, safe, safe_text
from parley.wire.yaml.write import quoted
from tests.samples.messages import a_file
from tests.surface.stage import Stage

# Clear the screen, C1's CSI, reorder, hide, go back, go down, ring, delete.
TRICKS = "\x1b[2J \x9b31m \u202egnp\u202c \u061c\u200b\u2066\u2069 \r \n \x07 \x7f \u2028 \ufeff \U000e0041"
DANGEROUS = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e01ef]"
)


def hostile(stage: Stage) -> None:
    """A message, a bad file and a card that try everything."""
    tricks = quoted(TRICKS)
    tricky_name = "evil\x1b[2J\u202e\r.yaml"
    stage.plant(
        "codex",
        tricky_name,
        id=quoted(f"id-{TRICKS}"),
        subject=tricks,
        body=tricks,
        channel=tricks,
        conversation_id=tricks,
        related_packet=tricks,
        context_keys=tricks,
    )
    path = stage.inbox("codex") / tricky_name
    path.write_bytes(path.read_bytes() + f"{quoted('x' + TRICKS)}: {tricks}\n".encode())
    (stage.inbox("codex") / "bad\x1b[2J\u202e.yaml").write_bytes(a_file(type=tricks))
    (stage.agent("codex") / "agent_card.yaml").write_text(
        f"name: codex\nruntime: {tricks}\ndescription: {tricks}\n", encoding="utf-8"
    )


@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
@pytest.mark.parametrize(
    "command",
    [
        ["inbox", "-a", "codex"],
        ["read", "evil\x1b[2J\u202e\r.yaml", "-a", "codex"],
        ["read", "bad\x1b[2J\u202e.yaml", "-a", "codex"],
        ["thread", f"id-{TRICKS}", "-a", "codex"],
        ["search", TRICKS.strip(), "-a", "codex"],
        ["search", f"nothing {TRICKS}", "-a", "codex"],
        ["next", "-a", "codex"],
        ["done", f"id-{TRICKS}", "-a", "codex"],
        ["watch", "--once", "-a", "codex"],
        ["watch", "--once", "--exec", "false", "-a", "codex"],
        ["doctor"],
        ["agent", "list"],
        ["agent", "show", "codex"],
        ["config", "-a", TRICKS],
        ["send", "-a", TRICKS, "--to", TRICKS, "--type", "question", "--subject", TRICKS, "--body", "x"],
        ["read", TRICKS, "-a", "codex"],
        [TRICKS],
        ["inbox", f"--{TRICKS}"],
    ],
    ids=lambda command: " ".join(re.sub(r"[^a-z-]+", "", word) for word in command[:2]),
)
def test_nothing_that_a_terminal_acts_on_is_printed_raw(stage: Stage, command: list[str], as_json: bool) -> None:
    hostile(stage)

    ran = stage.run(*command, *(["--json"] if as_json else []))

    assert DANGEROUS.findall(ran.out + ran.err) == []
    assert "internal" not in ran.err
    if ran.code and ran.err and "exec_failed" not in ran.err:
        assert ran.err.count("\n") == 1 + ("\nhint: " in ran.err)


def test_json_says_the_text_all_the_same(stage: Stage) -> None:
    hostile(stage)

    good = stage.run("inbox", "-a", "codex", "--json").json[0]

    assert (good["subject"], good["id"]) == (TRICKS, f"id-{TRICKS}")


def test_findings_of_a_packet_are_shown_safely(stage: Stage) -> None:
    asked = stage.send("--type", "review_request", "--set", "pr=1", "--set", "branch=b", "--set", "diff_summary=d")
    tricks = quoted(TRICKS)
    packet = f"findings:\n- {{id: {tricks}, severity: {tricks}, summary: {tricks}}}\n"
    (stage.project / "packets" / "findings" / "x.yaml").write_text(packet)
    stage.run(
        "reply", asked["id"], "-a", "codex", "--set", "findings_packet=packets/findings/x.yaml", "--set", "round=1",
        "--set", "blocking_count=0",
    )  # fmt: skip

    ran = stage.run("review", "status", asked["id"], "-a", "claude")

    assert ran.code == 0
    assert DANGEROUS.findall(ran.out) == []


def test_validate_shows_names_and_problems_safely(stage: Stage) -> None:
    path = stage.here / "x\x1b[2J.yaml"
    path.write_bytes(a_file(type=quoted(TRICKS)))

    ran = stage.run("validate", str(path))

    assert ran.code == 1
    assert DANGEROUS.findall(ran.out) == []


def test_a_file_name_that_is_not_utf_8_is_put_aside_like_any_bad_file(stage: Stage) -> None:
    inbox = os.fsencode(stage.inbox("codex"))
    for name, content in ((b"x\xff.yaml", a_file()), (b"y\xff.yaml", b"\xff")):
        with open(inbox + b"/" + name, "wb") as file:
            file.write(content)
        os.utime(inbox + b"/" + name, (0, 0))
    good = stage.send()

    looks = [stage.run(*words, "-a", "codex") for words in (["inbox"], ["inbox", "--json"], ["watch", "--once"])]
    handed = [stage.run("next", "-a", "codex", "--json") for _ in range(2)]

    assert [ran.code for ran in (*looks, *handed)] == [0, 0, 0, 0, 14]  # nothing is left to hand over
    assert [ran.err for ran in (*looks, handed[1])] == [""] * 4
    assert handed[0].err.startswith("warning: moved 2 files to dead_letter/: ")
    assert "x\\udcff.yaml  not_text: the file name" in looks[0].out
    assert (handed[0].json["id"], handed[1].json) == (good["id"], None)
    assert len([name for name in os.listdir(stage.agent("codex") / "dead_letter") if name.endswith(".json")]) == 2


def test_a_line_is_one_line_and_a_text_keeps_its_line_breaks() -> None:
    assert safe("a\nb\tc\rd\x1b") == "a\\nb\\tc\\rd\\x1b"
    assert safe_text("a\nb\tc\rd\x1b") == "a\nb\tc\\rd\\x1b"
    assert safe("Grüße, 日本, ✓ é") == "Grüße, 日本, ✓ é"
    assert safe("\u202e\U000e0041") == "\\u202e\\U000e0041"


def test_json_is_the_same_value_whatever_is_spelled_by_number() -> None:
    value = {"x": TRICKS, "half": "\udcff", "plain": "ü✓"}

    text = json_text(value, indent=2)

    assert json.loads(text) == value
    assert DANGEROUS.findall(text) == []
    assert "ü✓" in text


def test_on_a_terminal_there_are_colours(stage: Stage) -> None:
    stage.send("--priority", "P0")

    code, shown = stage.on_terminal("inbox", "-a", "codex")

    assert code == 0
    assert "\x1b[31m1  P0   question" in shown


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("NO_COLOR", ""), ("TERM", "dumb")])
def test_no_color_and_dumb_terminals_are_honoured(stage: Stage, name: str, value: str) -> None:
    stage.send("--priority", "P0")
    stage.patch.setenv(name, value)

    _, shown = stage.on_terminal("inbox", "-a", "codex")

    assert "P0" in shown
    assert "\x1b" not in shown


def test_json_has_no_colours_even_on_a_terminal(stage: Stage) -> None:
    stage.send("--priority", "P0")

    _, shown = stage.on_terminal("inbox", "-a", "codex", "--json")

    assert json.loads(shown)[0]["priority"] == "P0"


def test_through_a_pipe_there_are_no_colours_and_nothing_is_cut(stage: Stage) -> None:
    sent = stage.send("--priority", "P0", subject="x" * 200)

    ran = stage.script("inbox", "-a", "codex")

    assert "\x1b" not in ran.out
    assert f"{sent['id']}  {'x' * 200}\n" in ran.out


def test_on_a_narrow_terminal_the_subject_is_cut_and_the_message_can_still_be_named(stage: Stage) -> None:
    stage.patch.setenv("NO_COLOR", "1")
    sent = stage.send(subject="A subject that is a good deal longer than the terminal is wide, so it must be cut")

    _, shown = stage.on_terminal("inbox", "-a", "codex", columns=80)

    ending = sent["id"].rpartition("-")[2]
    assert max(map(len, shown.splitlines())) <= 80
    assert re.search(rf" {ending}  A subject.*…", shown)
    assert stage.run("read", ending, "-a", "codex").code == 0


@pytest.mark.parametrize("command", [["inbox", "-a", "codex"], ["outbox", "-a", "claude"]])
def test_at_80_columns_similar_subjects_can_be_told_apart(stage: Stage, command: list[str]) -> None:
    stage.patch.setenv("NO_COLOR", "1")
    fields = ["--set", "pr=1", "--set", "branch=b", "--set", "diff_summary=d"]
    for name in ("limiter", "gateway"):
        stage.send("--type", "review_request", *fields, subject=f"Review the token {name}")

    _, shown = stage.on_terminal(*command, columns=80)

    assert max(map(len, shown.splitlines())) <= 80
    assert "Review the token limiter" in shown
    assert "Review the token gateway" in shown


def test_a_status_that_is_not_the_usual_one_is_shown_on_a_narrow_terminal(stage: Stage) -> None:
    stage.send()
    stage.run("next", "-a", "codex")

    assert "claimed" in stage.on_terminal("inbox", "-a", "codex", columns=80)[1]


def test_a_short_subject_stays_whole_when_only_the_id_does_not_fit(stage: Stage) -> None:
    stage.patch.setenv("NO_COLOR", "1")
    sent = stage.send(subject="Rate limiting")

    _, shown = stage.on_terminal("inbox", "-a", "codex", columns=72)

    assert f"{sent['id'].rpartition('-')[2]}  Rate limiting\n" in shown


def test_tricks_stay_tricks_on_a_real_terminal(stage: Stage) -> None:
    hostile(stage)
    stage.patch.setenv("NO_COLOR", "1")

    shown = "".join(stage.on_terminal(*words)[1] for words in (["inbox", "-a", "codex"], ["next", "-a", "codex"]))

    assert DANGEROUS.findall(shown) == []
    assert "\\x1b[2J" in shown


def test_errors_go_to_standard_error_and_results_to_standard_output(stage: Stage) -> None:
    good = stage.script("inbox", "-a", "codex")
    bad = stage.script("inbox", "-a", "nobody")

    assert (good.code, good.err) == (0, "")
    assert (bad.code, bad.out) == (3, "")


def test_a_terminal_of_another_encoding_shows_what_it_can(stage: Stage) -> None:
    stage.send(subject="Grüße ✓ 日本")

    ran = stage.script("inbox", "-a", "codex", env={"PYTHONIOENCODING": "ascii"})

    assert ran.code == 0
    assert "Gr\\xfc\\xdfe" in ran.out
