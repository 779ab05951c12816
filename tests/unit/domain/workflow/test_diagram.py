from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from parley.domain.channel.channel import MemberPolicy
from parley.domain.directory.intent import TaskStatus
from parley.domain.workflow.diagram import diagram, label
from parley.domain.workflow.plan import AgentPlan, ChannelPlan, HandlerRef, IntentPlan, MessageRule, Step, WorkflowPlan
from tests.samples.messages import PROPERTY

LOG = HandlerRef("", "log_progress")


def a_plan() -> WorkflowPlan:
    return WorkflowPlan(
        IntentPlan("Research"),
        (ChannelPlan("progress"), ChannelPlan("questions", ("data",), MemberPolicy.EXPLICIT)),
        (AgentPlan("research", on_message=(MessageRule(LOG, "progress"),)), AgentPlan("data")),
        (
            Step("fetch", "Fetch the figures", assign="data"),
            Step("write", "write", assign="research", depends_on=("fetch",)),
        ),
    )


def test_steps_agents_and_channels_are_drawn_with_what_binds_them() -> None:
    assert diagram(a_plan()).splitlines() == [
        "flowchart LR",
        '  subgraph intent["Research"]',
        '    step1["Fetch the figures<br/>data"]',
        '    step2["write<br/>research"]',
        "  end",
        '  agent1(["research"])',
        '  agent2(["data"])',
        '  channel1[/"progress"/]',
        '  channel2[/"questions"/]',
        "  step1 --> step2",
        "  agent2 -.-> step1",
        "  agent1 -.-> step2",
        "  agent1 --- channel1",
        "  agent2 --- channel1",
        "  agent2 --- channel2",
        '  channel1 -- "log_progress" --> agent1',
    ]


def test_with_states_every_step_has_its_colour() -> None:
    lines = diagram(a_plan(), {"fetch": TaskStatus.COMPLETED, "write": TaskStatus.RUNNING}).splitlines()

    assert '    step1["Fetch the figures<br/>data<br/><i>completed</i>"]' in lines
    assert "  class step1 completed" in lines
    assert "  class step2 running" in lines
    assert len([line for line in lines if line.startswith("  classDef ")]) == 2


def test_a_step_that_has_not_begun_has_no_colour() -> None:
    assert "class " not in diagram(a_plan(), dict.fromkeys(("fetch", "write"), TaskStatus.PENDING))


def test_without_steps_the_intent_is_a_box() -> None:
    assert diagram(WorkflowPlan(IntentPlan("Talk"))).splitlines() == ["flowchart LR", '  intent["Talk"]']


def test_a_long_title_is_cut() -> None:
    assert label("x" * 100) == "x" * 79 + "…"


@PROPERTY
@given(st.text())
def test_no_text_gets_out_of_its_label(text: str) -> None:
    shown = label(text)

    assert not re.search(r'["<>`\n\r\\]', shown)
    assert all(re.match(r"#(35|quot|lt|gt|amp|96|92);", shown[at:]) for at, one in enumerate(shown) if one == "#")
