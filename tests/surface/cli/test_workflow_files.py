"""`parley workflow check` and `graph` on files, without a server."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.surface.stage import Stage
from tests.unit.sdk.workflow.stage import forgetting
from tests.unit.wire.files.test_workflow import RFC

HANDLERS = "def log_progress(message): ...\nasync def answer_questions(message, agent): return {}\n"
STEPS = """\
version: "1.0"
intent: {title: 'Report "Q1"'}
agents: {ann: {handler: work}}
workflow: {a: {assign: ann}, b: {assign: ann, depends_on: [a]}}
"""


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    with forgetting():
        yield


def wrote(stage: Stage, **files: str) -> None:
    for name, text in files.items():
        (stage.here / name.replace("_", ".")).write_text(text)


def test_the_file_of_the_rfc_is_valid_with_its_handlers_beside_it(stage: Stage) -> None:
    wrote(stage, workflow_yaml=RFC, handlers_py=HANDLERS)

    ran = stage.run("workflow", "check", "workflow.yaml")

    assert (ran.code, ran.out, ran.err) == (0, "workflow.yaml: valid (0 steps, 2 agents, 2 channels)\n", "")
    assert stage.run("workflow", "check", "-q", "workflow.yaml").out == ""


def test_handlers_may_be_left_out_or_stand_in_a_module(stage: Stage) -> None:
    wrote(stage, workflow_yaml=RFC)
    (stage.here / "wf_crew.py").write_text(HANDLERS)

    assert stage.run("workflow", "check", "workflow.yaml").code == 1
    assert stage.run("workflow", "check", "--no-import", "workflow.yaml").code == 0
    assert stage.run("workflow", "check", "--handlers", "wf_crew", "workflow.yaml").code == 0


def test_everything_that_is_wrong_is_named_by_file_line_and_key(stage: Stage) -> None:
    wrote(stage, good_yaml=STEPS, handlers_py="def work(step): ...\n")
    wrote(
        stage,
        bad_yaml=RFC.replace("member_policy: intent", "member_policy: all").replace("handler: log", "handle: log"),
    )

    ran = stage.run("workflow", "check", "good.yaml", "bad.yaml", "nowhere.yaml")

    assert ran.code == 1
    assert ran.out.splitlines() == [
        "good.yaml: valid (2 steps, 1 agent, 0 channels)",
        'bad.yaml:12: channels.progress.member_policy: must be explicit or intent, not "all"',
        "bad.yaml:18: agents.research-agent.on_message[0].handler: is not there",
        "bad.yaml:19: agents.research-agent.on_message[0].handle: is not known (did you mean handler?)",
        "nowhere.yaml: No such file or directory",
    ]


def test_handlers_that_cannot_be_used_are_named_by_the_line_of_their_key(stage: Stage) -> None:
    wrote(stage, workflow_yaml=RFC, handlers_py="print('hello')\ndef log_progress(): ...\n")

    ran = stage.run("workflow", "check", "workflow.yaml")

    said = "log_progress has to take (message) or (message, agent)"
    assert ran.out.splitlines() == [
        f"workflow.yaml:19: agents.research-agent.on_message[0].handler: {said}",
        "workflow.yaml:24: agents.data-agent.on_message[0].handler: handlers.py has no function answer_questions",
    ]
    assert ran.err == "hello\n"


def test_as_json_every_flaw_has_its_line(stage: Stage) -> None:
    wrote(stage, workflow_yaml=STEPS.replace("[a]", "[b]"), handlers_py="def work(step): ...\n")

    (found,) = stage.run("workflow", "check", "--json", "workflow.yaml").json

    assert (found["file"], found["valid"]) == ("workflow.yaml", False)
    assert [(flaw["line"], flaw["key"], flaw["code"], flaw["detail"]) for flaw in found["flaws"]] == [
        (4, "workflow.b.depends_on", "circle", "goes in a circle: b -> b")
    ]


@pytest.mark.parametrize("name", ["empty", "binary", "pipe"])
def test_what_is_no_workflow_at_all_is_named_too(stage: Stage, name: str) -> None:
    path = stage.here / f"{name}.yaml"
    if name == "pipe":
        os.mkfifo(path)
    else:
        path.write_bytes({"empty": b"", "binary": b"a\n\xff\xfe"}[name])

    ran = stage.run("workflow", "check", path.name)

    assert (ran.code, ran.err) == (1, "")
    assert ran.out.startswith(f"{name}.yaml:")
    assert stage.run("workflow", "run", path.name).code == 2
    assert stage.run("workflow", "graph", path.name).code == 2


def test_a_workflow_is_read_from_standard_input(stage: Stage) -> None:
    ran = stage.run("workflow", "check", "--no-import", "-", stdin=STEPS.encode())

    assert (ran.code, ran.out) == (0, "-: valid (2 steps, 1 agent, 0 channels)\n")


def test_a_graph_is_mermaid_that_no_title_breaks(stage: Stage) -> None:
    wrote(stage, workflow_yaml=STEPS)

    ran = stage.run("workflow", "graph", "workflow.yaml")

    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines() == [
        "flowchart LR",
        '  subgraph intent["Report #quot;Q1#quot;"]',
        '    step1["a<br/>ann"]',
        '    step2["b<br/>ann"]',
        "  end",
        '  agent1(["ann"])',
        "  step1 --> step2",
        "  agent1 -.-> step1",
        "  agent1 -.-> step2",
    ]
    assert stage.run("workflow", "graph", "--json", "workflow.yaml").json == {"diagram": ran.out, "states": {}}


def test_a_file_that_is_not_valid_is_neither_drawn_nor_run(stage: Stage) -> None:
    wrote(stage, workflow_yaml="version: '2'\n")

    for words in (("graph",), ("run",)):
        ran = stage.run("workflow", *words, "workflow.yaml")
        assert (ran.code, ran.error, ran.out) == (2, "workflow_invalid", "")
        assert 'workflow.yaml:1: version: must be "1.0", not "2"' in ran.err
