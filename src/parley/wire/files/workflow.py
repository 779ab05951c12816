"""A workflow file: YAML text that says what is to be reached, where agents talk, who they are, and what they do.

    version: "1.0"
    intent: {title: Research Q1 Financials}
    channels:
      progress: {member_policy: intent, audit: false}
    agents:
      research-agent:
        on_message: [{channel: progress, handler: log_progress}]
    workflow:
      research: {assign: research-agent, handler: "research:collect", timeout: 5m}

All flaws of a file are named at once, each with its line and key. Files of the OpenIntent SDK are read as far as Parley
has their features; the others are named, each once.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, NamedTuple

from parley.domain.channel.channel import DEFAULT_MAX_MESSAGES, MemberPolicy, Options
from parley.domain.directory.access import AccessPolicy
from parley.domain.directory.callers import SYSTEM
from parley.domain.errors.workflow import WorkflowInvalid, WorkflowUnsupported
from parley.domain.limits import DEFAULT_LIMITS
from parley.domain.message.message import KINDS, Pattern
from parley.domain.names import NAME_RULE, is_name
from parley.domain.workflow.check import faults
from parley.domain.workflow.plan import (
    VERSION,
    AgentPlan,
    ChannelPlan,
    HandlerRef,
    IntentPlan,
    KeyPath,
    MessageRule,
    Reference,
    RetryPauses,
    Step,
    WorkflowPlan,
)
from parley.wire.files.document import (
    FLAGS,
    LONGEST_WORD,
    UNAVAILABLE,
    Flaw,
    Reading,
    dotted,
    invalid_file,
    line_of,
    one_for_each_feature,
    show_value,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from parley.domain.limits import Limits
    from parley.domain.message.message import Value

_TOP = ("version", "intent", "channels", "agents", "workflow", "timeout", "handlers")
# Words of the OpenIntent SDK's files, which are read as ours.
_OTHER_TOP = ("openintent", "info")
_INFO = ("name", "description", "version")
_INTENT = ("title", "description", "state", "constraints", "access")
_CHANNEL = ("members", "member_policy", "audit", "ttl_seconds", "max_messages")
_AGENT = ("description", "role", "capabilities", "concurrency", "handler", "on_message")
_RULE = ("channel", "kind", "from", "handler", "timeout")
_STEP = (
    *("title", "description", "assign", "role", "depends_on", "handler", "timeout", "retries"),
    *("inputs", "outputs", "constraints"),
)
_OTHER_STEP = ("agent", "initial_state", "retry")
_RETRY = ("max_attempts", "backoff", "initial_delay_ms", "max_delay_ms")
# Keys of other tools' files, and what to do instead.
_INSTEAD = {
    "name": "write title",
    "phases": "write workflow",
    "steps": "write workflow",
    "options": "write audit, ttl_seconds and max_messages without it",
}
# Keys of the OpenIntent SDK's files whose features Parley does not have, and what to do without them.
_UNAVAILABLE = {
    "governance": "rules are policies, see: parley policy; a time limit is: timeout",
    "llm": "a handler calls its model itself",
    "mcp": "a handler calls its tools itself",
    "tools": "a handler calls its tools itself",
    "identity": "the server's keys say who an agent is",
    "verification": "every log is chained; see: parley audit verify",
    "types": "outputs names the keys that a result must have",
    "permissions": "access is given to an intent, not to a step",
    "access": "access is given to an intent, not to a step",
    "delegation": "access is given to an intent, not to a step",
    "context": "a step gets its inputs, the intent and all results",
    "leasing": "each step is done by one agent",
    "cost_tracking": "costs are not counted",
    "attachments": "a result is JSON: store files elsewhere, and return their addresses",
    "skip_when": "the handler decides whether there is anything to do",
    "retryable_errors": "every failure is tried again",
    "default_permission": "access is given to an intent, see: parley policy",
    "approval_required": "policies say what waits for a person, see: parley policy",
}
_GROWTHS = {growth: growth for growth in ("exponential", "linear", "constant")}
_POLICIES = {policy.value: policy for policy in MemberPolicy}
_ACCESS = {policy.value: policy for policy in AccessPolicy}
_KINDS = (*(pattern.value for pattern in Pattern), *KINDS)
_IDENTIFIER = r"[^\W\d]\w*(?:\.[^\W\d]\w*)*"
_MODULE = re.compile(_IDENTIFIER)
_HANDLER = re.compile(rf"({_IDENTIFIER}):({_IDENTIFIER})|([^\W\d]\w*)")
_STEP_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}", re.ASCII)
_REFERENCE = re.compile(r"([A-Za-z_][A-Za-z0-9_-]{0,63})((?:\.[A-Za-z0-9_-]+)+)", re.ASCII)
_LONGEST_TITLE = 500
_MOST_RETRIES = 100
_LONGEST_DELAY_MS = 86_400_000
_MOST_AT_ONCE = 1_000
_LONGEST_TTL = 10 * 365 * 86_400
_MOST_MESSAGES = 1_000_000


class WorkflowFile(NamedTuple):
    """A workflow, and where in its file everything stands."""

    name: str
    plan: WorkflowPlan
    lines: Mapping[KeyPath, int]

    def flaw(self, path: KeyPath, code: str, detail: str) -> Flaw:
        """Something wrong at a key, which stands where the nearest around it does that is there."""
        return Flaw(self.name, line_of(self.lines, path), dotted(path), code, detail)


def read_workflow(text: str, name: str, limits: Limits = DEFAULT_LIMITS) -> WorkflowFile:
    """The workflow of a file; `WorkflowInvalid` names all its flaws, also in `facts["flaws"]`."""
    document = _Document(text, name, limits, _INSTEAD, unavailable=_UNAVAILABLE)
    plan = document.plan()
    if document.flaws:
        unsupported = all(flaw.code == UNAVAILABLE for flaw in document.flaws)
        error = WorkflowUnsupported if unsupported else WorkflowInvalid
        raise invalid_file(error, one_for_each_feature(document.flaws))
    return WorkflowFile(name, plan, document.lines)


class _Document(Reading):
    """One file on its way to a plan."""

    _steps: tuple[str, ...] = ()

    def plan(self) -> WorkflowPlan:
        needs = [
            ours for ours, theirs in zip(("version", "intent"), _OTHER_TOP, strict=True) if theirs not in self.document
        ]
        top = self.top((*_TOP, *_OTHER_TOP), tuple(needs), empty=("channels", "agents", "workflow"))
        if not self.document:
            return WorkflowPlan(IntentPlan(""))
        for key in ("version", "openintent"):
            if top.get(key) not in (None, VERSION):
                self.wrong((key,), "wrong_value", f'must be "{VERSION}", not {show_value(top[key])}')
        self._one_word(top, (), "version", "openintent")
        steps = self.mapping(("workflow",), top.get("workflow"))
        self._steps = tuple(steps)
        plan = WorkflowPlan(
            self._intent(top.get("intent")) if self._one_word(top, (), "intent", "info") else self._info(top["info"]),
            tuple(
                [self._channel(name, value) for name, value in self.mapping(("channels",), top.get("channels")).items()]
            ),
            tuple([self._agent(name, value) for name, value in self.mapping(("agents",), top.get("agents")).items()]),
            tuple([self._step(name, value) for name, value in steps.items()]),
            self.duration(("timeout",), top.get("timeout")),
            self.matching(("handlers",), top.get("handlers"), _MODULE, "must be the name of a module") or "",
        )
        for fault in faults(plan):
            if fault.path not in self.blamed:
                self.wrong(*fault)
        return plan

    # ---------------------------------------------------------------- the parts

    def _one_word(self, fields: Mapping[str, Value], path: KeyPath, ours: str, theirs: str) -> bool:
        """Whether a file has our word for something, or none. Both words at once are a flaw."""
        if ours in fields and theirs in fields:
            self.wrong((*path, theirs), "duplicate", f"stands for {ours}, which is there, too")
        return theirs not in fields or ours in fields

    def _info(self, value: Value) -> IntentPlan:
        """The intent, as the OpenIntent SDK's files name it. Their version is for people."""
        fields = self.fields(("info",), value, _INFO, needs=("name",))
        return IntentPlan(
            self.line(("info", "name"), fields.get("name"), _LONGEST_TITLE),
            self.text(("info", "description"), fields.get("description")),
            {},
            {},
        )

    def _intent(self, value: Value) -> IntentPlan:
        path: KeyPath = ("intent",)
        fields = self.fields(path, value, _INTENT, needs=("title",))
        state = self.typed((*path, "state"), self.mapping((*path, "state"), fields.get("state")))
        return IntentPlan(
            self.line((*path, "title"), fields.get("title"), _LONGEST_TITLE),
            self.text((*path, "description"), fields.get("description")),
            state,
            self._constraints((*path, "constraints"), fields.get("constraints")) or {},
            *self._access((*path, "access"), fields.get("access")),
        )

    def _access(self, path: KeyPath, value: Value) -> tuple[AccessPolicy, tuple[str, ...]]:
        """`open`, `closed`, or a list of agents that are not in the file."""
        if isinstance(value, list):
            return AccessPolicy.CLOSED, self.items(path, value, self.name)
        return self.one_of(path, value, _ACCESS) or AccessPolicy.CLOSED, ()

    def _constraints(self, path: KeyPath, value: Value) -> Mapping[str, Any] | tuple[Any, ...]:
        constraints = self.typed(path, value)
        if not isinstance(constraints, dict | list | None):
            self.wrong(path, "wrong_type", "must be a mapping or a list")
            return ()
        return tuple(constraints) if isinstance(constraints, list) else constraints or ()

    def _channel(self, name: str, value: Value) -> ChannelPlan:
        path: KeyPath = ("channels", name)
        self._named(path, name, "channel")
        fields = self.fields(path, value, _CHANNEL)
        options = Options(
            audit=bool(self.one_of((*path, "audit"), fields.get("audit"), FLAGS, plain=True)),
            ttl_seconds=self.number((*path, "ttl_seconds"), fields.get("ttl_seconds"), 1, _LONGEST_TTL),
            max_messages=self.number((*path, "max_messages"), fields.get("max_messages"), 1, _MOST_MESSAGES)
            or DEFAULT_MAX_MESSAGES,
        )
        policy = self.one_of((*path, "member_policy"), fields.get("member_policy"), _POLICIES)
        members = self.items((*path, "members"), fields.get("members"), self.name)
        return ChannelPlan(name, members, policy or MemberPolicy.INTENT, options)

    def _agent(self, name: str, value: Value) -> AgentPlan:
        path: KeyPath = ("agents", name)
        self._named(path, name, "agent")
        fields = self.fields(path, {} if value is None else value, _AGENT)
        role = self.name((*path, "role"), fields["role"]) if "role" in fields else None

        def capability(at: KeyPath, value: Value) -> str | None:
            return self.line(at, value, LONGEST_WORD) or None

        return AgentPlan(
            name,
            role or "",
            self.items((*path, "capabilities"), fields.get("capabilities"), capability),
            self.number((*path, "concurrency"), fields.get("concurrency"), 1, _MOST_AT_ONCE),
            self._handler((*path, "handler"), fields.get("handler")),
            self.items((*path, "on_message"), fields.get("on_message"), self._rule, distinct=False),
            self.line((*path, "description"), fields.get("description"), _LONGEST_TITLE),
        )

    def _rule(self, path: KeyPath, value: Value) -> MessageRule | None:
        fields = self.fields(path, value, _RULE, needs=("handler",))
        kind = fields.get("kind")
        if kind is not None and kind not in _KINDS:
            close = get_close_matches(kind, _KINDS, 1) if isinstance(kind, str) else []
            suggestion = f"did you mean {close[0]}?" if close else f"one of {', '.join(_KINDS)}"
            self.wrong((*path, "kind"), "wrong_value", f"{show_value(kind)} is no kind of message ({suggestion})")
        # A rule without a handler is refused, and keeps its number among the others.
        return MessageRule(
            self._handler((*path, "handler"), fields.get("handler")) or HandlerRef("", ""),
            (self.name((*path, "channel"), fields["channel"]) if "channel" in fields else None) or "",
            str(kind or ""),
            self._senders((*path, "from"), fields.get("from")),
            self.duration((*path, "timeout"), fields.get("timeout")),
        )

    def _senders(self, path: KeyPath, value: Value) -> tuple[str, ...]:
        """One name, or a list of them."""
        if value is None or isinstance(value, list):
            return self.items(path, value, self.name)
        name = self.name(path, value)
        return (name,) if name else ()

    def _step(self, name: str, value: Value) -> Step:
        path: KeyPath = ("workflow", name)
        if not _STEP_NAME.fullmatch(name):
            rule = "1 to 64 letters, digits, '_' or '-', starting with a letter"
            self.wrong(path, "bad_name", f"is no name of a step: use {rule}")
        fields = self.fields(path, value, (*_STEP, *_OTHER_STEP))
        assign = "assign" if self._one_word(fields, path, "assign", "agent") else "agent"
        given = "inputs" if self._one_word(fields, path, "inputs", "initial_state") else "initial_state"
        if not {assign, "role"} & {*fields} and path not in self.blamed:
            self.wrong((*path, "assign"), "missing", "is not there (or name a role)")
        inputs = self.mapping((*path, given), fields.get(given))
        retries, pauses = self._retries(path, fields)
        return Step(
            name,
            self.line((*path, "title"), fields["title"], _LONGEST_TITLE) if "title" in fields else name,
            self.text((*path, "description"), fields.get("description")),
            (self.name((*path, assign), fields[assign]) if assign in fields else None) or "",
            self.items((*path, "depends_on"), fields.get("depends_on"), self.word),
            self._handler((*path, "handler"), fields.get("handler")),
            self.duration((*path, "timeout"), fields.get("timeout")),
            retries,
            {key: self._input((*path, given, key), value) for key, value in inputs.items()},
            self.items((*path, "outputs"), fields.get("outputs"), self.word),
            (self.name((*path, "role"), fields["role"]) if "role" in fields else None) or "",
            self._constraints((*path, "constraints"), fields.get("constraints")),
            pauses,
        )

    def _retries(self, path: KeyPath, fields: Mapping[str, Value]) -> tuple[int, RetryPauses]:
        """How often a step is tried again, and when: a number, or the OpenIntent SDK's mapping."""
        if self._one_word(fields, path, "retries", "retry"):
            return self.number((*path, "retries"), fields.get("retries"), 0, _MOST_RETRIES) or 0, RetryPauses()
        path = (*path, "retry")
        retry = self.fields(path, fields["retry"], _RETRY)
        attempts = self.number((*path, "max_attempts"), retry.get("max_attempts"), 1, _MOST_RETRIES + 1)
        first = self.number((*path, "initial_delay_ms"), retry.get("initial_delay_ms"), 0, _LONGEST_DELAY_MS)
        longest = self.number((*path, "max_delay_ms"), retry.get("max_delay_ms"), 0, _LONGEST_DELAY_MS)
        growth = self.one_of((*path, "backoff"), retry.get("backoff"), _GROWTHS)
        plain = RetryPauses()
        pauses = RetryPauses(
            plain.first if first is None else first / 1000,
            plain.longest if longest is None else longest / 1000,
            growth or plain.growth,
        )
        return (attempts or 1) - 1, pauses

    def _input(self, path: KeyPath, value: Value) -> Any:  # noqa: ANN401  # whatever a file holds
        """A value; a text that begins with the name of a step and a dot is a reference, wherever it stands."""
        if isinstance(value, dict):
            return {key: self._input((*path, key), item) for key, item in value.items()}
        if isinstance(value, list):
            return [self._input((*path, number), item) for number, item in enumerate(value)]
        match = _REFERENCE.fullmatch(value) if isinstance(value, str) else None
        if match is None:
            return self.typed(path, value)
        if match[1] in self._steps:
            return Reference(match[1], tuple(match[2][1:].split(".")))
        close = get_close_matches(match[1], self._steps, 1)
        if close and self.plain(path):
            self.wrong(path, "unknown", f"no step {match[1]} (did you mean {close[0]}? a text has quotes)")
        return value

    def _handler(self, path: KeyPath, value: Value) -> HandlerRef | None:
        rule = "must be module:function, or a function of the handlers module"
        text = self.matching(path, value, _HANDLER, rule)
        match = _HANDLER.fullmatch(text) if text else None
        return HandlerRef(match[1] or "", match[2] or match[3]) if match else None

    def _named(self, path: KeyPath, name: str, what: str) -> None:
        if name == SYSTEM and what == "agent":
            self.wrong(path, "bad_name", "is a reserved name")
        elif not is_name(name):
            self.wrong(path, "bad_name", f"is no name of {'an' if what == 'agent' else 'a'} {what}: use {NAME_RULE}")
