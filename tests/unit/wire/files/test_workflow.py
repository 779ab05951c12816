"""A workflow file is read strictly, and everything that is wrong with it is named at once."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.domain.channel.channel import MemberPolicy, Options
from parley.domain.directory.access import AccessPolicy
from parley.domain.errors.workflow import WorkflowInvalid, WorkflowUnsupported
from parley.domain.limits import DEFAULT_LIMITS
from parley.domain.workflow.plan import AgentPlan, ChannelPlan, HandlerRef, IntentPlan, MessageRule, Reference, Step
from parley.wire.files.workflow import read_workflow
from tests.samples.messages import PROPERTY

# As RFC-0021 prints it.
RFC = """\
version: "1.0"
intent:
  title: "Research Q1 Financials"

channels:
  data-clarification:
    members: [research-agent, data-agent]
    member_policy: explicit
    audit: true

  progress:
    member_policy: intent
    audit: false

agents:
  research-agent:
    on_message:
      - channel: progress
        handler: log_progress

  data-agent:
    on_message:
      - channel: data-clarification
        handler: answer_questions
"""
HEAD = 'version: "1.0"\nintent: {title: T}\n'
HANDLER = "must be module:function, or a function of the handlers module"
ANN = "agents: {ann: {handler: f}}\n"


def flaws_of(text: str) -> list[str]:
    """What is wrong with a file, line by line; nothing when it is valid."""
    with suppress(WorkflowInvalid):
        read_workflow(text, "w.yaml")
        return []
    with pytest.raises(WorkflowInvalid) as caught:
        read_workflow(text, "w.yaml")
    error = caught.value
    flaws: Any = error.facts["flaws"]
    lines = [f"{one['line']}: {one['key']}: {one['detail']}".replace(": : ", ": ") for one in flaws]
    assert error.message == "; ".join(f"w.yaml:{line}" for line in lines)
    assert [problem.code for problem in error.problems] == [one["code"] for one in flaws]
    return lines


def test_the_file_of_the_rfc_is_read_as_it_is_printed() -> None:
    plan = read_workflow(RFC, "w.yaml").plan

    members = ("research-agent", "data-agent")
    assert plan.intent == IntentPlan("Research Q1 Financials", constraints={})
    assert plan.channels == (
        ChannelPlan("data-clarification", members, MemberPolicy.EXPLICIT, Options(audit=True)),
        ChannelPlan("progress"),
    )
    assert plan.agents == (
        AgentPlan("research-agent", on_message=(MessageRule(HandlerRef("", "log_progress"), "progress"),)),
        AgentPlan("data-agent", on_message=(MessageRule(HandlerRef("", "answer_questions"), "data-clarification"),)),
    )
    assert (plan.steps, plan.timeout, plan.handlers) == ((), None, "")


def test_everything_that_can_be_said_is_read() -> None:
    text = """\
version: 1.0
timeout: 2h
handlers: crew.tools
intent:
  title: Report
  description: |
    Two
    lines
  state: {quarter: Q1, year: 2026, rate: 0.5, final: false, code: "7", nothing: null, list: [1, "1"]}
  constraints: [never guess]
channels:
  talk: {members: [ann], ttl_seconds: 60, max_messages: 5}
agents:
  ann:
    role: analyst
    capabilities: [sql, plain words]
    concurrency: 2
    handler: f
    on_message:
      - {channel: talk, kind: question, from: bob, handler: "mod.sub:g", timeout: 30s}
      - {from: [bob, cy], handler: h}
  bob:
workflow:
  fetch:
    assign: ann
    outputs: [rows, meta]
  write:
    title: Write it up
    description: long
    assign: ann
    depends_on: [fetch]
    handler: mod:write
    timeout: 5m
    retries: 2
    inputs:
      {rows: fetch.rows, first: "fetch.meta.first", name: report.pdf, limit: 3, text: "12", when: 12:30,
       all: [fetch.rows, 1]}
"""
    plan = read_workflow(text, "w.yaml").plan

    assert (plan.timeout, plan.handlers) == (7200.0, "crew.tools")
    state = {"quarter": "Q1", "year": 2026, "rate": 0.5, "final": False, "code": "7", "nothing": None, "list": [1, "1"]}
    assert plan.intent == IntentPlan("Report", "Two\nlines\n", state, ("never guess",))
    assert plan.channels == (ChannelPlan("talk", ("ann",), options=Options(ttl_seconds=60, max_messages=5)),)
    rules = (
        MessageRule(HandlerRef("mod.sub", "g"), "talk", "question", ("bob",), 30.0),
        MessageRule(HandlerRef("", "h"), senders=("bob", "cy")),
    )
    assert plan.agents == (
        AgentPlan("ann", "analyst", ("sql", "plain words"), 2, HandlerRef("", "f"), rules),
        AgentPlan("bob"),
    )
    inputs = {
        "rows": Reference("fetch", ("rows",)),
        "first": Reference("fetch", ("meta", "first")),
        "name": "report.pdf",
        "limit": 3,
        "text": "12",
        "when": "12:30",
        "all": [Reference("fetch", ("rows",)), 1],
    }
    assert plan.steps == (
        Step("fetch", "fetch", assign="ann", outputs=("rows", "meta")),
        Step("write", "Write it up", "long", "ann", ("fetch",), HandlerRef("mod", "write"), 300.0, 2, inputs),
    )


@pytest.mark.parametrize(
    ("said", "access", "others"),
    [
        ("", AccessPolicy.CLOSED, ()),
        (", access: closed", AccessPolicy.CLOSED, ()),
        (", access: open", AccessPolicy.OPEN, ()),
        (", access: [logger, auditor]", AccessPolicy.CLOSED, ("logger", "auditor")),
    ],
)
def test_who_has_access_to_the_intent_beside_the_agents_of_the_file(
    said: str, access: AccessPolicy, others: tuple[str, ...]
) -> None:
    text = f'version: "1.0"\nintent: {{title: T{said}}}\n{ANN}workflow: {{a: {{assign: ann}}, b: {{assign: bob}}}}\n'
    plan = read_workflow(text, "w.yaml").plan

    assert (plan.intent.access, plan.intent.others) == (access, others)
    assert plan.participants == ("ann", "bob", *others)


def test_every_key_has_its_line() -> None:
    file = read_workflow(RFC, "w.yaml")

    flaw = file.flaw(("agents", "data-agent", "on_message", 0, "handler"), "unknown", "no")
    assert str(flaw) == "w.yaml:24: agents.data-agent.on_message[0].handler: no"
    assert file.flaw(("agents", "data-agent", "handler"), "missing", "no").line == 21


def test_everything_that_is_wrong_is_named_at_once() -> None:
    text = """\
version: "2"
intent: {titel: T}
channels:
  progress: {member_policy: all, audit: "true", max_messages: many}
  "a b": {}
agents:
  ann:
    concurency: 2
    on_message:
      - {channel: progres, handler: "f()"}
      - {kind: shout, handler: f}
workflow:
  one: {assign: an, depends_on: [two], timeout: 30}
  two: {assign: ann, depends_on: [one], outputs: x}
"""
    shortened = [re.sub(r"(use|one of) .*", "...", line) for line in flaws_of(text)]
    assert shortened == [
        '1: version: must be "1.0", not "2"',
        "2: intent.titel: is not known (did you mean title?)",
        "2: intent.title: is not there",
        "4: channels.progress.audit: must be true or false without quotes",
        '4: channels.progress.max_messages: must be a whole number from 1 to 1000000, not "many"',
        '4: channels.progress.member_policy: must be explicit or intent, not "all"',
        "5: channels.a b: is no name of a channel: ...",
        "8: agents.ann.concurency: is not known (did you mean concurrency?)",
        f'10: agents.ann.on_message[0].handler: {HANDLER}, not "f()"',
        "10: agents.ann.on_message[0].channel: no channel progres (did you mean progress?)",
        '11: agents.ann.on_message[1].kind: "shout" is no kind of message (...',
        '13: workflow.one.timeout: must be a duration such as 30s, 5m or 2h, not "30"',
        "13: workflow.one.assign: no agent an (did you mean ann?)",
        "13: workflow.one.depends_on: goes in a circle: one -> two -> one",
        '14: workflow.two.outputs: must be a list, not "x"',
        "14: workflow.two.handler: is not there, and ann, which runs here, has none either",
    ]


@pytest.mark.parametrize(
    ("key", "instead"),
    [
        ('openintent: "1.0"', "openintent: stands for version, which is there, too"),
        ("info: {name: x}", "info: stands for intent, which is there, too"),
        ("llm: {}", "llm: is not available in Parley (a handler calls its model itself)"),
        ("types: {}", "types: is not available in Parley (outputs names the keys that a result must have)"),
        ("phases: {}", "phases: is not known (write workflow)"),
    ],
)
def test_keys_of_other_tools_are_refused_with_what_to_do_instead(key: str, instead: str) -> None:
    text = f"{HEAD}{ANN}workflow: {{a: {{assign: ann}}}}\n{key}\n"

    assert flaws_of(text) == [f"5: {instead}"]


def test_a_file_may_have_the_words_of_the_openintent_sdk() -> None:
    text = """\
openintent: "1.0"
info: {name: Report, version: "3.1", description: In short}
workflow:
  fetch:
    agent: ann
    initial_state: {limit: 3}
    constraints: [be brief]
    retry: {max_attempts: 3, backoff: linear, initial_delay_ms: 1500, max_delay_ms: 2000}
  write: {role: writer, depends_on: [fetch]}
agents: {ann: {description: Fetches}}
"""
    plan = read_workflow(text, "w.yaml").plan

    assert plan.intent == IntentPlan("Report", "In short", {}, {})
    assert plan.agents == (AgentPlan("ann", description="Fetches"),)
    fetch, write = plan.steps
    assert (fetch.assign, fetch.inputs, fetch.constraints, fetch.retries) == ("ann", {"limit": 3}, ("be brief",), 2)
    assert [fetch.pauses.after(attempt) for attempt in (1, 2)] == [1.5, 2.0]
    assert (write.doer, plan.remote_doers) == ("any:writer", ("ann", "any:writer"))


def test_a_feature_that_is_not_there_is_named_once_with_all_its_places() -> None:
    text = (
        HEAD
        + """\
workflow:
  a: {assign: ann, permissions: open}
  b:
    assign: ann
    permissions: private
    leasing: {strategy: none}
  c: {assign: ann, permissions: [ann]}
"""
    )
    with pytest.raises(WorkflowUnsupported) as refused:
        read_workflow(text, "w.yaml")

    flaws = refused.value.facts["flaws"]
    assert isinstance(flaws, list)
    assert [(flaw["line"], flaw["key"], flaw["code"], flaw["detail"]) for flaw in flaws] == [
        (
            4,
            "workflow.a.permissions",
            "unavailable",
            "is not available in Parley (access is given to an intent, not to a step); also in lines 7, 9",
        ),
        (8, "workflow.b.leasing", "unavailable", "is not available in Parley (each step is done by one agent)"),
    ]


@pytest.mark.parametrize(
    ("step", "flaw"),
    [
        ("{}", "assign: is not there (or name a role)"),
        ("{assign: ann, agent: ann}", "agent: stands for assign, which is there, too"),
        ("{assign: ann, inputs: {}, initial_state: {}}", "initial_state: stands for inputs, which is there, too"),
        ("{assign: ann, retries: 1, retry: {}}", "retry: stands for retries, which is there, too"),
        ("{assign: ann, role: writer}", "role: is done by ann: name an agent or a role"),
        (
            "{role: writer, handler: f}",
            "handler: is for an agent of this file; those of a role run elsewhere",
        ),
        ("{assign: ann, handler: f}", "assign: no agent ann (there is none)"),
        ("{assign: ann, constraints: brief}", "constraints: must be a mapping or a list"),
        ("{assign: ann, retry: {backoff: random}}", "retry.backoff: must be exponential or linear or constant"),
        ("{assign: ann, retry: {max_attempts: 0}}", "retry.max_attempts: must be a whole number from 1 to 101"),
        ("{assign: ann, retry: {retryable_errors: [X]}}", "retry.retryable_errors: is not available in Parley"),
    ],
)
def test_who_does_a_step_and_how_often_is_said_once(step: str, flaw: str) -> None:
    (said,) = flaws_of(f"{HEAD}workflow: {{a: {step}}}\n")

    assert said.startswith(f"3: workflow.a.{flaw}")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "1: the file is empty"),
        ("- a\n", "1: The"),
        ("a: [1\n", "2: did not find expected ',' or ']'"),
        (f"{HEAD}{ANN}a: &x 1\n", "4: a: anchors and aliases are not allowed"),
        (f"{HEAD}{ANN}a: *x\n", "4: a: anchors and aliases are not allowed"),
        (f"{HEAD}{ANN}a: !!python/name:os.system x\n", "4: a: the tag"),
        (f"{HEAD}{ANN}agents: {{}}\n", "4: agents: 'agents' is given twice"),
        (f"{HEAD}{ANN}---\nb: 1\n", "4: "),
        ("a: b\n" * 2, "2: a: 'a' is given twice"),
        ("x" * (DEFAULT_LIMITS.file_bytes + 1), "1: larger than 262144 bytes"),
    ],
)
def test_what_is_no_plain_yaml_is_refused_with_its_line(text: str, said: str) -> None:
    assert any(line.startswith(said) for line in flaws_of(text)), flaws_of(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{}\n", ["1: version: is not there", "1: intent: is not there"]),
        ("version: '1.0'\nintent:\n", ["2: intent: has no value"]),
        ("version: '1.0'\nintent: Report\n", ['2: intent: must hold keys and their values, not "Report"']),
        (
            "version: '1.0'\nintent: {title: T, access: public}\n",
            ['2: intent.access: must be open or closed, not "public"'],
        ),
        ("version: '1.0'\nintent: {title: T, access: [a b]}\n", ['2: intent.access[0]: must be a name, not "a b"']),
        (HEAD + "agents: [ann]\n", ["3: agents: must hold keys and their values, not a list"]),
        (HEAD + "timeout: soon\n" + ANN, ['3: timeout: must be a duration such as 30s, 5m or 2h, not "soon"']),
        (HEAD + "handlers: ./tools.py\n" + ANN, ['3: handlers: must be the name of a module, not "./tools.py"']),
    ],
)
def test_what_is_missing_or_of_another_type_is_named(text: str, said: list[str]) -> None:
    nothing_to_do = "nobody has anything to do"

    assert [line for line in flaws_of(text) if nothing_to_do not in line] == said


@pytest.mark.parametrize(
    ("step", "said"),
    [
        ("{}", "workflow.a.assign: is not there"),
        ("{assign: ann, depends_on: b}", 'workflow.a.depends_on: must be a list, not "b"'),
        ("{assign: ann, depends_on: [b, b]}", 'workflow.a.depends_on[1]: "b" is in the list twice'),
        ("{assign: ann, depends_on: [[]]}", "workflow.a.depends_on[0]: must be one line of text"),
        ("{assign: [ann]}", "workflow.a.assign: must be a name, not a list"),
        ("{assign: ann, retries: 101}", 'workflow.a.retries: must be a whole number from 0 to 100, not "101"'),
        ("{assign: ann, inputs: [x]}", "workflow.a.inputs: must hold keys and their values, not a list"),
        ("{assign: ann, inputs: {x: bee.rows}}", "workflow.a.inputs.x: no step bee"),
        ("{assign: ann, handler: os.system}", "workflow.a.handler: must be module:function"),
        ("{assign: ann, handler: ''}", "workflow.a.handler: must be module:function"),
        ("{assign: ann, title: ''}", "workflow.a.title: must be one line of text with at most 500 characters"),
        ("{assign: ann, description: []}", "workflow.a.description: must be text"),
        ("[ann]", "workflow.a: must hold keys and their values, not a list"),
    ],
)
def test_a_step_says_what_is_wrong_with_it(step: str, said: str) -> None:
    text = f"{HEAD}{ANN}workflow:\n  b: {{assign: ann}}\n  beef: {{assign: ann}}\n  a: {step}\n"

    assert [line for line in flaws_of(text) if line.startswith(f"7: {said}")], flaws_of(text)


def test_a_key_that_is_wrong_is_not_said_to_be_missing_as_well() -> None:
    text = HEAD + "agents: {bob: {}}\nworkflow: {a: {assign: bob, handler: f()}}\n"

    assert flaws_of(text) == [f'4: workflow.a.handler: {HANDLER}, not "f()"']


@pytest.mark.parametrize("name", ["1st", "a.b", "a b", "", "a/b", "é"])
def test_a_step_has_a_name_that_can_be_referred_to(name: str) -> None:
    assert "is no name of a step" in flaws_of(f'{HEAD}{ANN}workflow: {{"{name}": {{assign: ann}}}}\n')[0]


@pytest.mark.parametrize("name", ["system", "a b", "../x"])
def test_an_agent_has_a_name_that_a_server_takes(name: str) -> None:
    assert "name" in flaws_of(f'{HEAD}agents: {{"{name}": {{on_message: [{{handler: f}}]}}}}\n')[0]


def test_a_text_in_quotes_is_never_taken_for_a_step_that_was_mistyped() -> None:
    text = f'{HEAD}{ANN}workflow:\n  report: {{assign: ann}}\n  b: {{assign: ann, inputs: {{file: "reports.pdf"}}}}\n'

    assert read_workflow(text, "w.yaml").plan.steps[1].inputs == {"file": "reports.pdf"}


_PIECES = st.sampled_from(
    [
        *("version", "intent", "title", "channels", "agents", "workflow", "on_message", "handler", "assign"),
        *("depends_on", "inputs", "members", "1.0", "a", "a.b", ": ", "\n", "\n  ", "\n    ", "- ", "[", "]", "{", "}"),
        *('"', "'", "&a ", "*a", "!!x ", "<<", ",", "null", "\t", "---\n", "|", "\x00", "\ud800"),
    ]
)


@PROPERTY
@given(st.lists(_PIECES, max_size=30).map("".join))
def test_whatever_a_file_holds_it_is_read_or_refused_in_one_way(text: str) -> None:
    with suppress(WorkflowInvalid):
        read_workflow(text, "w.yaml")


@PROPERTY
@given(st.integers(0, len(RFC)), st.integers(0, 12), _PIECES)
def test_a_file_with_something_else_in_the_middle_is_read_or_refused_in_one_way(at: int, cut: int, piece: str) -> None:
    with suppress(WorkflowInvalid):
        read_workflow(RFC[:at] + piece + RFC[at + cut :], "w.yaml")
