"""parley kinds: the fields of a kind without provoking an error, and a template that can be sent."""

from __future__ import annotations

import pytest

from parley.domain.message.kinds import Kind
from tests.surface.stage import Stage


def test_all_kinds_are_listed_with_their_answers(stage: Stage) -> None:
    lines = stage.run("kinds").out.splitlines()

    assert [line.split()[0] for line in lines] == ["KIND", *Kind]
    assert [one["type"] for one in stage.run("kinds", "--json").json] == list(Kind)


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.requirement("D-KINDS")
def test_a_kind_is_shown_with_every_field(stage: Stage, kind: Kind) -> None:
    shown, as_json = stage.run("kinds", kind).out, stage.run("kinds", kind, "--json").json

    assert all(f"\n{field.name} " in shown for field in kind.spec.fields)
    assert [field["name"] for field in as_json["fields"]] == [field.name for field in kind.spec.fields]
    assert as_json["template"] == stage.run("kinds", kind, "--template").out
    assert ("The body is free text." in shown) is not bool(kind.spec.fields)


@pytest.mark.requirement("D-KINDS")
def test_a_template_that_was_filled_in_can_be_sent(stage: Stage) -> None:
    template = stage.run("kinds", "review_lgtm", "--template").out
    filled = template.replace("result:", "result: pass").replace("ready:", "ready: true")
    (stage.here / "body.yaml").write_text(filled)

    sent = stage.send("--type", "review_lgtm", "--body-file", "body.yaml")

    assert sent["body"] == {"quality_gate_result": "pass", "merge_ready": True}


@pytest.mark.parametrize(
    ("words", "said"), [(["reviw_lgtm"], "did you mean review_lgtm?"), (["--template"], "needs a kind")]
)
def test_an_unknown_kind_is_an_error(stage: Stage, words: list[str], said: str) -> None:
    ran = stage.run("kinds", *words)

    assert (ran.code, ran.error, said in ran.err) == (2, "invalid", True)
