"""An organisation's own rules in Rego, asked after ours: they can make a verdict stricter, and never looser.

    package parley
    import rego.v1
    deny contains "restricted stays in house" if input.level == "restricted"
    hold contains "a person looks at what leaves sales" if input.sender.org_unit == "sales"

They are asked in a process of their own (see `rego_worker`), by one thread. What takes too long is ended, and what does
not answer with exactly two sets of messages counts as no answer: then nothing is sent.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import queue
import select
import subprocess
import sys
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, NamedTuple

from parley.domain.errors.errors import BadConfig
from parley.domain.errors.rules import PolicyDenied, PolicyUnavailable
from parley.domain.exchange.approval import Cause
from parley.domain.exchange.exchange import summary_of
from parley.domain.hashes import digest
from parley.domain.rules.judge import Deny, Hold, evaluation_of
from parley.domain.rules.ruling import with_verdict
from parley.domain.rules.trial import verdict_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from parley.domain.agents.party import Party
    from parley.domain.rules.ruling import Proposal, Ruling

_log = logging.getLogger("parley.rego")
_WORKER = os.path.join(os.path.dirname(__file__), "rego_worker.py")
_ENDING = ".rego"
_TIMEOUT_SECONDS = 2.0
_START_SECONDS = 30.0
_CHECK_SECONDS = 1.0
# Inputs per request: fewer than a pipe holds.
_INPUTS_BATCH = 20
_RULES_MAX_BYTES = 1024 * 1024
_MESSAGES_LIMIT = 5
_STOPPED = "the organisation's rules are not asked any more"
Signature = tuple[tuple[str, int, int, int], ...]


class RegoAnswer(NamedTuple):
    """What the rules said to one input."""

    deny: tuple[str, ...]
    hold: tuple[str, ...]


class RegoRules:
    """See `ports.outside.RuleExtension`. `path` is a file or a folder; a change in it is in force a second later."""

    def __init__(self, path: str, monotonic: Callable[[], float], seconds: float = _TIMEOUT_SECONDS) -> None:
        self._path = path
        self._monotonic = monotonic
        self._seconds = seconds
        self._jobs: queue.SimpleQueue[tuple[list[dict[str, Any]], Future[list[RegoAnswer]]] | None] = (
            queue.SimpleQueue()
        )
        self._loaded_signature: Signature = ()
        self._checked_at = 0.0
        self._texts: dict[str, str] = {}
        self._worker: _Worker | None = None
        self._thread = threading.Thread(target=self._run, name="rego", daemon=True)
        self.label = ""

    def start(self) -> None:
        """Compile the rules and begin to answer; `BadConfig` says what is wrong with them, and where."""
        self._loaded_signature, self._checked_at = _signature(self._path), self._monotonic()
        self._use(_texts(self._path))
        self._thread.start()

    def close(self) -> None:
        """Answer nothing more."""
        self._jobs.put(None)
        if self._thread.is_alive():
            self._thread.join(self._seconds + 1)
        if self._worker is not None:
            self._worker.stop()

    async def tighten(self, proposal: Proposal, ruling: Ruling) -> Ruling:
        inputs = [input_of(proposal, ruling, receiver) for receiver in ruling.receivers]
        answers: list[RegoAnswer] = []
        for first in range(0, len(inputs), _INPUTS_BATCH):
            batch = await asyncio.wrap_future(self.ask(inputs[first : first + _INPUTS_BATCH]))
            answers += batch
        return _tighten(proposal, ruling._replace(rules=self.label), answers)

    def ask(self, inputs: list[dict[str, Any]]) -> Future[list[RegoAnswer]]:
        """What the rules say to each of these; any thread may ask. Fails with `PolicyUnavailable`."""
        future: Future[list[RegoAnswer]] = Future()
        self._jobs.put((inputs, future))
        if not self._thread.is_alive() and not future.done():
            future.set_exception(PolicyUnavailable(_STOPPED))
        return future

    # ------------------------------------------------------------ in the thread

    def _run(self) -> None:
        try:
            while (job := self._jobs.get()) is not None:
                self._answer(*job)
        finally:
            # Fail what is still queued.
            while not self._jobs.empty():
                if (job := self._jobs.get()) is not None:
                    job[1].set_exception(PolicyUnavailable(_STOPPED))

    def _answer(self, inputs: list[dict[str, Any]], future: Future[list[RegoAnswer]]) -> None:
        if not future.set_running_or_notify_cancel():
            return
        try:
            self._reload_if_changed()
            future.set_result(self._query(inputs))
        except PolicyUnavailable as error:
            future.set_exception(error)
        finally:
            if not future.done():
                future.set_exception(PolicyUnavailable(_STOPPED))

    def _query(self, inputs: list[dict[str, Any]]) -> list[RegoAnswer]:
        try:
            if self._worker is None:
                self._worker = _Worker(self._texts, self._path)
            answer = self._worker.ask(inputs, self._seconds)
        except (OSError, ValueError, BadConfig):
            # It died, answers nonsense, or takes too long: the next one begins anew.
            if self._worker is not None:
                self._worker.stop()
                self._worker = None
            raise PolicyUnavailable("the organisation's rules did not answer") from None
        if not isinstance(answer, list) or len(answer) != len(inputs):
            raise PolicyUnavailable("the organisation's rules did not answer")
        return [_parse_answer(item) for item in answer]

    def _reload_if_changed(self) -> None:
        """Take what has changed, if it can be used; else what was in force stays so."""
        now = self._monotonic()
        if now - self._checked_at < _CHECK_SECONDS:
            return
        self._checked_at = now
        try:
            signature = _signature(self._path)
            if signature == self._loaded_signature:
                return
            self._loaded_signature = signature
            texts = _texts(self._path)
            if texts != self._texts:
                self._use(texts)
                _log.info("the rules in Rego changed", extra={"rules": self.label})
        except BadConfig as error:
            extra = {"rules": self.label, "reason": error.message}
            _log.warning("the rules in Rego cannot be used; those of before stay in force", extra=extra)

    def _use(self, texts: dict[str, str]) -> None:
        worker = _Worker(texts, self._path)
        if self._worker is not None:
            self._worker.stop()
        self._worker, self._texts = worker, texts
        self.label = f"rego-{digest(json.dumps(texts, sort_keys=True).encode())[:12]}"


class _Worker:
    """The process, once its rules are compiled."""

    def __init__(self, texts: dict[str, str], path: str) -> None:
        # -P: beside its file lie modules of ours, whose names may be those of others.
        command = [sys.executable, "-P", _WORKER]
        self._process = subprocess.Popen(  # noqa: S603  # our own file
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={},
            start_new_session=True,
        )
        try:
            answer = self.ask({"modules": texts, "sample": SAMPLE}, _START_SECONDS)
        except (OSError, ValueError):
            self.stop()
            raise BadConfig(f"{path}: the rules end the process that compiles them") from None
        if answer == {"ready": True}:
            return
        self.stop()
        if answer.get("missing"):
            raise BadConfig(
                "rego is set, but the package regopy is not installed", hint="install it with: pip install regopy"
            )
        line = f":{answer['line']}" if answer.get("line") else ""
        raise BadConfig(f"{answer.get('file') or path}{line}: {summary_of(str(answer.get('error')))}")

    def ask(self, document: object, seconds: float) -> Any:  # noqa: ANN401  # what JSON holds
        """One line for another; OSError (TimeoutError) or ValueError when there is none."""
        assert self._process.stdin is not None and self._process.stdout is not None  # noqa: S101, PT018  # pipes
        self._process.stdin.write(json.dumps(document).encode() + b"\n")
        self._process.stdin.flush()
        ready, _, _ = select.select([self._process.stdout], [], [], seconds)
        if not ready:
            raise TimeoutError
        return json.loads(self._process.stdout.readline())

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:  # what could no longer be written
                    continue


# ---------------------------------------------------------------- files


def _files(path: str) -> list[str]:
    if os.path.isfile(path):
        return [path]
    paths = [
        os.path.join(folder, name)
        for folder, _, names in os.walk(path)
        for name in names
        if name.endswith(_ENDING) and not name.endswith(f"_test{_ENDING}") and not name.startswith(".")
    ]
    if not paths:
        raise BadConfig(f"{path}: there is no {_ENDING} file", hint="the setting rego names a file or a folder")
    return sorted(paths)


def _signature(path: str) -> Signature:
    try:
        infos = [(file, os.stat(file)) for file in _files(path)]
    except OSError as error:
        raise BadConfig(f"{path}: {error.strerror}") from None
    return tuple([(file, info.st_mtime_ns, info.st_size, info.st_ino) for file, info in infos])


def _texts(path: str) -> dict[str, str]:
    texts: dict[str, str] = {}
    size = 0
    for file in _files(path):
        try:
            with open(file, "rb") as opened:
                content = opened.read(_RULES_MAX_BYTES + 1)
            texts[file] = content.decode("utf-8")
        except OSError as error:
            raise BadConfig(f"{file}: {error.strerror}") from None
        except UnicodeDecodeError:
            raise BadConfig(f"{file}: is not UTF-8 text") from None
        size += len(content)
    if size > _RULES_MAX_BYTES:
        raise BadConfig(f"{path}: more than {_RULES_MAX_BYTES} bytes of rules")
    return texts


# ---------------------------------------------------------------- question and answer


def input_of(proposal: Proposal, ruling: Ruling, receiver: Party) -> dict[str, Any]:
    """The input of the rules: sender, receiver, purpose and level. The content is not included."""
    verdict, envelope = ruling.verdict, ruling.envelope
    return {
        "tenant": proposal.tenant,
        **evaluation_of(proposal.sender, receiver),
        "sender": _party(proposal.sender),
        "receiver": _party(receiver),
        "to": proposal.to,
        "channel": proposal.channel_id,
        "purpose": ruling.exchange_before.purpose.value,
        "initiates": proposal.sender.agent == ruling.exchange_before.initiator,
        "origin": ruling.origin.value,
        "level": ruling.level.value,
        "findings": [finding.name for finding in ruling.detections],
        "keywords": list(ruling.keywords),
        "shared": [item.classification.value for item in ruling.shared],
        "withheld": [item.classification.value for item in ruling.withheld],
        "round": envelope.exchange_round,
        "max_rounds": envelope.max_rounds,
        "hops": ruling.ext.hops,
        "verdict": verdict_name(verdict),
        "cause": verdict.cause.value if isinstance(verdict, Hold) else "",
        "approved": proposal.approval is not None,
    }


def _party(party: Party) -> dict[str, Any]:
    attributes = party.attributes
    return {
        "agent": party.agent,
        "user": party.user,
        "org_unit": attributes.org_unit,
        "team": attributes.team,
        "max_classification": attributes.max_classification.value,
        "human": party.human,
    }


_SAMPLE_PARTY = {
    "agent": "alice",
    "user": "ann",
    "org_unit": "engineering",
    "team": "",
    "max_classification": "internal",
    "human": False,
}
# Rules are tried with it before they are in force.
SAMPLE: dict[str, Any] = {
    "tenant": "default",
    "action": "agent_exchange",
    "sourceOrgUnit": "engineering",
    "targetOrgUnit": "engineering",
    "sender": _SAMPLE_PARTY,
    "receiver": {**_SAMPLE_PARTY, "agent": "bob"},
    "to": "bob",
    "channel": "",
    "purpose": "information_query",
    "initiates": True,
    "origin": "agent-generated",
    "level": "internal",
    "findings": [],
    "keywords": [],
    "shared": [],
    "withheld": [],
    "round": 1,
    "max_rounds": 3,
    "hops": 1,
    "verdict": "allow",
    "cause": "",
    "approved": False,
}


def _parse_answer(answer: object) -> RegoAnswer:
    match answer:
        case {"deny": list() as deny, "hold": list() as hold} if all(
            isinstance(message, str) for message in (*deny, *hold)
        ):
            return RegoAnswer(tuple(deny), tuple(hold))
        case {"failed": str() as reason}:
            raise PolicyUnavailable(f"the organisation's rules failed: {reason}")
    raise PolicyUnavailable("the organisation's rules did not answer")


def _tighten(proposal: Proposal, ruling: Ruling, answers: list[RegoAnswer]) -> Ruling:
    """The ruling after what the rules said for each receiver; they leave out, hold or deny."""
    pairs = list(zip(ruling.receivers, answers, strict=True))
    passing = tuple([receiver for receiver, answer in pairs if not answer.deny])
    if len(passing) < len(pairs):
        excluded = [(receiver.agent, PolicyDenied.code) for receiver, answer in pairs if answer.deny]
        ruling = ruling._replace(receivers=passing, excluded=(*ruling.excluded, *excluded), tightened=True)
    if not passing:
        facts = {"policy": ruling.policy.version, "rules": ruling.rules}
        facts |= evaluation_of(proposal.sender, pairs[0][0])
        denial = PolicyDenied(_join_messages(text for about in answers for text in about.deny), facts=facts)
        return with_verdict(proposal, ruling, Deny(denial))
    messages = [text for receiver, answer in pairs if not answer.deny for text in answer.hold]
    # A person who has approved it has looked.
    if not messages or proposal.approval is not None:
        return ruling
    held = with_verdict(proposal, ruling, Hold(Cause.RULE, _join_messages(messages)))
    return held._replace(tightened=True) if held.verdict is not ruling.verdict else held


def _join_messages(messages: Any) -> str:  # noqa: ANN401  # an iterable of texts
    lines = [summary_of(message) for message in sorted(set(messages))]
    return "; ".join([line for line in lines if line][:_MESSAGES_LIMIT]) or "The organisation's rules do not allow it."
