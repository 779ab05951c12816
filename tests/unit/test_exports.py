"""What `import parley` offers, and nothing else."""

from __future__ import annotations

import asyncio
import inspect
import pickle
import re
import subprocess
import sys

import pytest

import parley

PUBLIC = [
    "AccessList",
    "AccessRequest",
    "Agent",
    "AgentFailed",
    "AgentGone",
    "AgentInfo",
    "Ambiguous",
    "Approval",
    "ApprovalCount",
    "ApprovalDecided",
    "ApprovalLink",
    "ApprovalStale",
    "Ask",
    "AskCount",
    "AskEnded",
    "AskTimeout",
    "Assignment",
    "AsyncChannelHandle",
    "AsyncClient",
    "AsyncDirect",
    "AsyncPendingApproval",
    "AsyncReceivedMessage",
    "AsyncServerSession",
    "Attempt",
    "AuditCheckpoint",
    "AuditCheckpoints",
    "AuditCounts",
    "AuditEntry",
    "AuditExplanation",
    "AuditLogState",
    "AuditPage",
    "AuditProof",
    "BadAgentName",
    "BaseAgent",
    "Bookmark",
    "BookmarkTaken",
    "ChainCheck",
    "Challenge",
    "Channel",
    "ChannelClosed",
    "ChannelHandle",
    "ChannelMessage",
    "ChannelOptions",
    "Checkpoint",
    "CircularWait",
    "ClaimedJob",
    "ClaimedMessage",
    "Client",
    "Conflict",
    "Consistency",
    "Conversation",
    "CursorEvicted",
    "DeadLetter",
    "DeliveryReceipt",
    "Denied",
    "Direct",
    "DirectChannel",
    "EndedSessions",
    "Erasure",
    "Event",
    "EventProof",
    "Exchange",
    "Explanation",
    "Forbidden",
    "FoundMessage",
    "Gone",
    "Grant",
    "Health",
    "Heartbeat",
    "Identity",
    "Intent",
    "Invalid",
    "Item",
    "Job",
    "Key",
    "KeyHolder",
    "Kind",
    "LeaseLost",
    "LiveItem",
    "LoginLink",
    "LoginSession",
    "Mailbox",
    "Message",
    "MessageHeld",
    "MessageStatus",
    "MessageSummary",
    "MessageTimeoutError",
    "NameTaken",
    "NewKey",
    "NewSubscription",
    "NoResponders",
    "NotFound",
    "NotMember",
    "ParleyError",
    "PendingApproval",
    "Policies",
    "Policy",
    "PolicyDifferences",
    "PolicyInForce",
    "PolicyRevision",
    "Priority",
    "Problem",
    "QueueCounts",
    "QuotaExceeded",
    "RateLimited",
    "ReceiptState",
    "ReceiptStep",
    "ReceivedMessage",
    "RecentChannel",
    "Record",
    "RefusedFile",
    "Replay",
    "RequestForward",
    "RequestInfo",
    "Review",
    "Role",
    "SentMessage",
    "ServerInfo",
    "ServerSession",
    "SignatureCheck",
    "StatusHistory",
    "StepContext",
    "StreamItem",
    "StreamTicket",
    "Subscription",
    "SubscriptionSecret",
    "Suspended",
    "Suspension",
    "SuspensionPreview",
    "Task",
    "Tenant",
    "Timer",
    "Traffic",
    "Unauthorized",
    "Unavailable",
    "Undelivered",
    "UnknownAgent",
    "UnknownMessage",
    "UnknownProject",
    "VersionMismatch",
    "Viewer",
    "Workflow",
    "WorkflowAbandoned",
    "WorkflowEvent",
    "WorkflowFailed",
    "WorkflowInvalid",
    "WorkflowResult",
    "WorkflowRunning",
    "WorkflowTimedOut",
    "ask_back",
    "connect",
    "connect_async",
    "on_approval",
    "on_assignment",
    "on_message",
    "on_notify",
    "on_request",
    "progress",
    "run_agents",
    "serve_agents",
]


def test_the_public_names_are_these() -> None:
    assert parley.__all__ == PUBLIC == sorted(PUBLIC)


# As the RFC calls it.
OTHER_NAMES = {"MessageTimeoutError": "AskTimeout"}


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(parley, name).__name__ == OTHER_NAMES.get(name, name)


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_class_names_the_package_in_tracebacks_and_reprs(name: str) -> None:
    exported = getattr(parley, name)

    if isinstance(exported, type):
        assert exported.__module__ == "parley"
        assert pickle.loads(pickle.dumps(exported)) is exported


def test_a_class_has_one_public_name_but_for_that_of_the_rfc() -> None:
    names = [name for name in PUBLIC if getattr(parley, name).__name__ != name]

    assert names == ["MessageTimeoutError"]


def test_a_call_that_lacks_an_argument_names_the_client_and_no_part_of_it() -> None:
    with pytest.raises(TypeError, match=r"^Client\.get_message\(\) missing"):
        parley.Client("http://127.0.0.1:1").get_message("chan_1")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"^AsyncClient\.get_message\(\) missing"):
        asyncio.run(parley.AsyncClient("http://127.0.0.1:1").get_message("chan_1"))  # type: ignore[call-arg]


def test_a_question_without_an_answer_has_two_names() -> None:
    assert parley.MessageTimeoutError is parley.AskTimeout


def test_a_name_that_is_not_public_is_not_there() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Kernel'"):
        parley.Kernel  # type: ignore[attr-defined]  # noqa: B018


def test_every_public_error_is_a_parley_error_with_a_code() -> None:
    public = [getattr(parley, name) for name in PUBLIC]
    found = {one for one in public if isinstance(one, type) and issubclass(one, Exception)}
    known = {one for one in found if issubclass(one, parley.ParleyError)}

    assert known == found
    assert len({error.code for error in known}) == len(known)


def named(pattern: str, *, of: str) -> set[str]:
    """What the methods of both clients name: in their docstrings, or as what they return."""
    return {
        name
        for kind in (parley.Client, parley.AsyncClient)
        for area in kind.__mro__
        for method in vars(area).values()
        if inspect.isfunction(method)
        for text in [method.__doc__ if of == "docstring" else str(method.__annotations__.get("return", ""))]
        for name in re.findall(pattern, text or "")
    }


def test_every_error_that_a_client_says_it_raises_is_public() -> None:
    said = {name for name in named(r"`([A-Z]\w+)`", of="docstring") if name not in ("Client", "None")}

    assert {"MessageTimeoutError", "MessageHeld", "VersionMismatch"} <= said <= set(PUBLIC)


def test_every_record_that_a_client_returns_is_public() -> None:
    returned = named(r"[A-Z]\w+", of="return") - {"AsyncGenerator", "Generator", "None", "Self", "T"}

    assert {"Channel", "Approval", "StreamItem"} <= returned <= set(PUBLIC)


def test_a_star_import_gives_the_public_names() -> None:
    names: dict[str, object] = {}
    exec("from parley import *", names)

    assert set(PUBLIC) <= set(names)


def test_importing_the_package_imports_nothing_of_it() -> None:
    code = "import sys, parley; print(*[name for name in sys.modules if name.startswith('parley.')])"

    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert loaded.stdout.split() == []
