"""docs/reference/python.md: everything that users import, from its docstrings."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from typing import ForwardRef, get_args, get_type_hints

import msgspec

import parley
from parley import testing
from parley.domain.directory.intent import TaskStatus
from parley.domain.errors.errors import ParleyError
from parley.domain.mailbox.waiting import OwedAnswer
from parley.domain.message.findings import Finding
from parley.domain.message.message import Draft
from parley.domain.message.review import ReviewClosure, ReviewerState, ReviewState
from parley.domain.workflow.plan import WorkflowOutcome
from parley.sdk.agent import channels
from parley.sdk.agent.agent import Start
from parley.sdk.mailbox import Mailbox
from parley.sdk.workflow.context import StepContext
from parley.sdk.workflow.result import StepResult, WorkflowEvent
from tools.reference.markdown import table

INTRO = """\
# Python

Everything here is imported from `parley`, except where it says otherwise.

| to | use | shown in |
|---|---|---|
| write an agent | [Agents](#agents) | [Write an agent](../how-to/write-an-agent.md) |
| talk to agents | [Connect](#connect) | [Use a server from Python](../how-to/talk-to-a-server-from-python.md) |
| use all of a server | [Client](#client) | [Use a server from Python](../how-to/talk-to-a-server-from-python.md) |
| run a workflow | [Workflow](#workflow) | [Run a workflow](../how-to/run-a-workflow.md) |
| test agents | [parley.testing](#parleytesting) | [Test an agent](../how-to/test-an-agent.md) |
| use a mailbox | [Mailbox](#mailbox) | [Use mailboxes from Python](../how-to/use-from-python.md) |
| know what comes back | [Records](#records), [errors](#errors) | |
"""
CONNECT = """
## Connect

What most programs need. `connect_async` gives the same with methods that are awaited: `AsyncServerSession`,
`AsyncChannelHandle`, `AsyncReceivedMessage`, `AsyncDirect`, `AsyncPendingApproval`; `ask_stream` and `listen` are
asynchronous iterators. Agents and tests have the same handles.
"""
CLIENT = """
## Client

{doc}

`AsyncClient` has the same methods with the same parameters; each is awaited, and `follow` and `export_audit` are
asynchronous iterators. It is for the tasks of one event loop.

A `sender` is only for a key that speaks for several agents; None is whoever `agent=` or the key says. A `Moment` is a
time: a `datetime` with a zone, or a text as RFC 3339 has it, such as `"2026-03-13T14:30:00Z"`.
"""
CHANNELS = """
### self.channels

The channels of an agent.
"""
STEP = """
### StepContext

{doc}
"""
RECORDS = """
## Records

What a server says. Fields are attributes, and can also be read as `record["field"]`; `dict(record)` and
`record.to_dict()` give all of them. They never change. A newer server may say more: that is left aside. A message is
different: `message["name"]` and `dict(message)` are its payload.
"""
PARTS = """
### Parts of records

What stands in a field of another record, or comes one by one out of an iterator: to be read, not imported.
"""
TUPLES = """
## Records of mailboxes and workflows

Named tuples: read a field by its name, `record._asdict()` for a dict. They never change.
"""
ERRORS = """
## Errors

All are `ParleyError`, with `code`, `message`, `hint`, `problems` and `facts`. These can be imported from `parley`. What
else there is, is a kind of one of them: catch that one, and look at `error.code`. The whole tree is in
[errors.md](errors.md).
"""
ENUMS = """
## Enums and other types

The members of an enum are texts: `Kind.QUESTION == "question"`. Wherever one is taken, the text will do.
"""
# Records with a section of their own.
SHOWN_ABOVE = ("Record", "ReceivedMessage", "AsyncReceivedMessage", "PendingApproval", "AsyncPendingApproval")
# What the page names without a section of its own; a set of texts is shown with all of them.
TYPES: dict[str, str | Iterable[str]] = {
    "AgentChannels": "the channels of an agent, see [channels.open](#channelsopen)",
    "Kind": "one of the kinds of a mailbox message, see [kinds.md](kinds.md)",
    "Moment": "a `datetime` with a zone, or a text as RFC 3339 has it",
    "WorkflowOutcome": WorkflowOutcome,
    "Priority": parley.Priority,
    "ProgressPart": "what `progress(...)` gives, for a generator handler to yield",
    "AsyncChannelHandle": "[ChannelHandle](#channelhandle) with methods that are awaited",
    "AsyncDirect": "[Direct](#direct) with methods that are awaited",
    "AsyncPendingApproval": "[PendingApproval](#pendingapproval) with methods that are awaited",
    "AsyncReceivedMessage": "[ReceivedMessage](#receivedmessage), whose `reply` is awaited",
    "AsyncServerSession": "[ServerSession](#serversession) with methods that are awaited",
    "QuestionBack": "what `ask_back(...)` gives, for a handler to return",
    "ForwardedRequest": "what `message.forward(...)` gives, for a handler to return",
    "ReceiptState": parley.ReceiptState,
    "ReviewState": ReviewState,
    "Start": get_args(Start),
    "TaskStatus": TaskStatus,
    "Transport": "what carries the requests of a client; left out, it is HTTP",
    "Value": "what YAML and JSON can say: text, whole number, true or false, nothing, a list or mapping of such",
    "WorkflowPlan": "what a [workflow file](workflow.md) says: `intent`, `channels`, `agents`, `steps`",
}


def python_page() -> Iterator[str]:
    yield INTRO
    yield from connect_part()
    yield from agents_part()
    yield from client_part()
    yield from workflow_part()
    yield from testing_part()
    yield from class_section(Mailbox, "##")
    yield from class_section(parley.ClaimedMessage, "###", construct=False)
    yield from class_section(parley.SentMessage, "###", construct=False)
    yield from records_part()
    yield ERRORS
    yield from table(("class", "code", "meaning"), error_rows())
    yield ENUMS
    yield from table(("type", "is"), ((f"`{name}`", meaning_of(meaning)) for name, meaning in TYPES.items()))


def agents_part() -> Iterator[str]:
    yield "## Agents"
    yield from class_section(parley.Agent, "###")
    marks = (parley.on_message, parley.on_request, parley.on_notify, parley.on_assignment, parley.on_approval)
    for function in (*marks, parley.progress, parley.ask_back):
        yield from function_section(function.__name__, function, "####")
    yield from class_section(parley.BaseAgent, "###")
    for several in (parley.run_agents, parley.serve_agents):
        yield from function_section(several.__name__, several, "###")
    yield CHANNELS.rstrip()
    yield from function_section("channels.open", channels.AgentChannels.open, "####")
    yield ""
    yield "It gives a [ChannelHandle](#channelhandle) whose methods are awaited."


def connect_part() -> Iterator[str]:
    yield ""
    yield CONNECT.strip()
    yield from function_section("connect", parley.connect, "###")
    for kind in (
        parley.ServerSession,
        parley.ChannelHandle,
        parley.ReceivedMessage,
        parley.Direct,
        parley.PendingApproval,
    ):
        yield from class_section(kind, "###", construct=False)


def client_part() -> Iterator[str]:
    yield CLIENT.format(doc=inspect.getdoc(parley.Client))
    yield from code(f"Client{signature(parley.Client.__init__)}")
    for area in parley.Client.__bases__:
        yield ""
        yield f"### {area.__name__}"
        for name, method in methods_of(area):
            yield from function_section(name, method, "####")
    yield ""
    yield "### The client itself"
    yield from members_of(parley.Client, "####")


def workflow_part() -> Iterator[str]:
    yield ""
    yield from class_section(parley.Workflow, "##")
    yield STEP.format(doc=inspect.getdoc(StepContext)).rstrip()
    yield ""
    yield from fields_table(StepContext)
    yield from members_of(StepContext, "####")


def testing_part() -> Iterator[str]:
    yield ""
    yield "## parley.testing"
    yield ""
    yield inspect.getdoc(testing) or ""
    for function in (testing.stage, testing.mailboxes):
        yield from function_section(function.__name__, function, "###")
    for kind in (testing.Stage, testing.Mailboxes):
        yield from class_section(kind, "###", construct=False)


def records_part() -> Iterator[str]:
    exported = [(name, getattr(parley, name)) for name in parley.__all__]
    classes = [(name, member) for name, member in exported if inspect.isclass(member)]
    yield RECORDS
    for name, record in classes:
        if issubclass(record, msgspec.Struct) and name not in SHOWN_ABOVE:
            yield from record_section(name, record)
    yield PARTS.rstrip()
    for part in sorted(unnamed_records(), key=lambda record: record.__name__):
        yield from record_section(part.__name__, part, "####")
    yield TUPLES.rstrip()
    shown = (StepContext, parley.ClaimedMessage, parley.SentMessage)
    tuples = {name: member for name, member in classes if issubclass(member, tuple) and member not in shown}
    for name, record in (
        tuples
        | {
            record.__name__: record
            for record in (Draft, Finding, OwedAnswer, ReviewClosure, ReviewerState, StepResult, WorkflowEvent)
        }
    ).items():
        yield from record_section(name, record)


def unnamed_records(kind: type[parley.Record] = parley.Record) -> Iterator[type[parley.Record]]:
    """Records that cannot be imported from `parley`."""
    for below in kind.__subclasses__():
        if below.__name__ not in parley.__all__:
            yield below
        yield from unnamed_records(below)


def meaning_of(meaning: str | Iterable[str]) -> str:
    return meaning if isinstance(meaning, str) else "one of " + ", ".join(f"`{value}`" for value in meaning)


def error_rows() -> Iterator[tuple[str, str, str]]:
    for name in parley.__all__:
        kind = getattr(parley, name)
        if inspect.isclass(kind) and issubclass(kind, ParleyError):
            summary = (inspect.getdoc(kind) or "").partition("\n")[0]
            yield (
                f"`{name}`",
                f"`{kind.code}`",
                summary if name == kind.__name__ else f"`{kind.__name__}`, as the RFC calls it",
            )


# ---------------------------------------------------------------- classes, functions, records


def class_section(kind: type, level: str, *, construct: bool = True) -> Iterator[str]:
    yield ""
    yield f"{level} {kind.__name__}"
    yield ""
    yield inspect.getdoc(kind) or ""
    if construct and "__init__" in vars(kind) and kind is not parley.Workflow:
        yield ""
        yield from code(f"{kind.__name__}{signature(vars(kind)['__init__'])}")
    yield from members_of(kind, level + "#")


def members_of(kind: type, level: str) -> Iterator[str]:
    """The attributes of a class in a table, then its methods."""
    attributes = [
        (f"`{name}`", f"`{annotation(member.fget)}`", one_line(member))
        for owner in reversed(own_classes(kind))
        for name, member in vars(owner).items()
        if isinstance(member, property) and not name.startswith("_")
    ]
    if attributes:
        yield ""
        yield from table(("attribute", "type", "meaning"), attributes)
    for owner in reversed(own_classes(kind)):
        for name, method in methods_of(owner):
            yield from function_section(name, method, level)


def own_classes(kind: type) -> list[type]:
    """A class, with those parts of it that have no name of their own."""
    return [kind, *(base for base in kind.__mro__[1:] if base.__name__.startswith("_"))]


def methods_of(kind: type) -> Iterator[tuple[str, Callable[..., object]]]:
    for name, member in vars(kind).items():
        function = member.__func__ if isinstance(member, classmethod) else member
        if inspect.isfunction(function) and not name.startswith("_"):
            yield name, function


def function_section(name: str, function: Callable[..., object], level: str) -> Iterator[str]:
    word = "async " if inspect.iscoroutinefunction(function) else ""
    yield ""
    yield f"{level} {name}"
    yield ""
    yield from code(f"{word}{name}{signature(function)}{returns(function)}")
    yield ""
    yield inspect.getdoc(function) or ""


def record_section(name: str, record: type, level: str = "###") -> Iterator[str]:
    yield ""
    yield f"{level} {name}"
    yield ""
    yield inspect.getdoc(record) or ""
    yield ""
    yield from fields_table(record)
    yield from members_of(record, level + "#")


def fields_table(record: type) -> list[str]:
    fields: tuple[str, ...] = getattr(record, "_fields", ()) or getattr(record, "__struct_fields__", ())
    types = get_type_hints(record) if issubclass(record, msgspec.Struct) else inspect.get_annotations(record)
    return table(("field", "type"), ((f"`{field}`", f"`{type_name(types[field])}`") for field in fields))


def code(text: str) -> tuple[str, ...]:
    return ("```text", text, "```")


def signature(function: Callable[..., object]) -> str:
    parts: list[str] = []
    starred = False
    for name, parameter in inspect.signature(function).parameters.items():
        if name in ("self", "cls"):
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            parts.append("*")
        starred = starred or parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL)
        stars = (
            "*"
            if parameter.kind is parameter.VAR_POSITIONAL
            else "**"
            if parameter.kind is parameter.VAR_KEYWORD
            else ""
        )
        default = "" if parameter.default is parameter.empty else f" = {shown_default(parameter.default)}"
        parts.append(f"{stars}{name}: {type_name(parameter.annotation)}{default}")
    line = f"({', '.join(parts)})"
    return line if len(line) <= 90 else "(\n" + "".join(f"    {part},\n" for part in parts) + ")"


def returns(function: Callable[..., object]) -> str:
    return f" -> {annotation(function)}"


def annotation(function: Callable[..., object] | None) -> str:
    return type_name(inspect.signature(function).return_annotation) if function else ""


def one_line(member: property) -> str:
    return " ".join((inspect.getdoc(member) or "").split())


def shown_default(value: object) -> str:
    if callable(value):
        name = getattr(value, "__name__", "")
        return "..." if name.startswith("_") else f"{getattr(value, '__module__', '')}.{name}"
    return f'"{value}"' if isinstance(value, str) else repr(value)


def type_name(annotation: object) -> str:
    """A type as one would write it, without where it comes from."""
    if isinstance(annotation, ForwardRef):  # as named tuples keep what their fields are
        annotation = annotation.__forward_arg__
    text = annotation.__name__ if isinstance(annotation, type) and not get_args(annotation) else str(annotation)
    text = re.sub(r"\b(?:[a-z_]+\.)+(?=\w)", "", re.sub(r"'([A-Z]\w*)'", r"\1", text)).replace("'", '"')
    return re.sub(r"Optional\[(\w+)\]", r"\1 | None", text)
