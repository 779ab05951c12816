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
from parley.domain.rules.judge import Deny, Hold
from parley.domain.rules.ruling import with_verdict
from parley.domain.rules.trial import verdict_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from parley.domain.agents.party import Party
    from parley.domain.rules.ruling import Proposal, Ruling

_log = logging.getLogger("parley.rego")
_WORKER = os.path.join(os.path.dirname(__file__), "rego_worker.py")
_ENDING = ".rego"
_SECONDS = 2.0
_START_SECONDS = 30.0
_LOOK_SECONDS = 1.0
# So many inputs at once are less than a pipe holds.
_PIECE = 20
_MOST_BYTES = 1024 * 1024
_MOST_MESSAGES = 5
_ENDED = "the organisation's rules are not asked any more"
Signature = tuple[tuple[str, int, int, int], ...]


class Said(NamedTuple):
    """What the rules said to one input."""

    deny: tuple[str, ...]
    hold: tuple[str, ...]


class RegoRules:
    """See `ports.outside.RuleExtension`. `path` is a file or a folder; a change in it is in force a second later."""

    def __init__(self, path: str, monotonic: Callable[[], float], seconds: float = _SECONDS) -> None:
        self._path = path
        self._monotonic = monotonic
        self._seconds = seconds
        self._jobs: queue.SimpleQueue[tuple[list[dict[str, Any]], Future[list[Said]]] | None] = queue.SimpleQueue()
        self._seen: Signature = ()
        self._looked = 0.0
        self._texts: dict[str, str] = {}
        self._worker: _Worker | None = None
        self._thread = threading.Thread(target=self._work, name="rego", daemon=True)
        self.label = ""

    def start(self) -> None:
        """Compile the rules and begin to answer; `BadConfig` says what is wrong with them, and where."""
        self._seen, self._looked = _signature(self._path), self._monotonic()
        self._take(_texts(self._path))
        self._thread.start()

    def close(self) -> None:
        """Answer nothing more."""
        self._jobs.put(None)
        if self._thread.is_alive():
            self._thread.join(self._seconds + 1)
        if self._worker is not None:
            self._worker.end()

    async def tighten(self, proposal: Proposal, ruling: Ruling) -> Ruling:
        inputs = [input_of(proposal, ruling, one) for one in ruling.receivers]
        said: list[Said] = []
        for first in range(0, len(inputs), _PIECE):
            answered = await asyncio.wrap_future(self.ask(inputs[first : first + _PIECE]))
            said += answered
        return _stricter(proposal, ruling._replace(rules=self.label), said)

    def ask(self, inputs: list[dict[str, Any]]) -> Future[list[Said]]:
        """What the rules say to each of these; any thread may ask. Fails with `PolicyUnavailable`."""
        future: Future[list[Said]] = Future()
        self._jobs.put((inputs, future))
        if not self._thread.is_alive() and not future.done():
            future.set_exception(PolicyUnavailable(_ENDED))
        return future

    # ------------------------------------------------------------ in the thread

    def _work(self) -> None:
        try:
            while (job := self._jobs.get()) is not None:
                self._answer(*job)
        finally:
            # Nobody waits for an answer that will not come.
            while not self._jobs.empty():
                if (job := self._jobs.get()) is not None:
                    job[1].set_exception(PolicyUnavailable(_ENDED))

    def _answer(self, inputs: list[dict[str, Any]], future: Future[list[Said]]) -> None:
        if not future.set_running_or_notify_cancel():
            return
        try:
            self._look()
            future.set_result(self._asked(inputs))
        except PolicyUnavailable as error:
            future.set_exception(error)
        finally:
            if not future.done():
                future.set_exception(PolicyUnavailable(_ENDED))

    def _asked(self, inputs: list[dict[str, Any]]) -> list[Said]:
        try:
            if self._worker is None:
                self._worker = _Worker(self._texts, self._path)
            answer = self._worker.ask(inputs, self._seconds)
        except (OSError, ValueError, BadConfig):
            # It died, answers nonsense, or takes too long: the next one begins anew.
            if self._worker is not None:
                self._worker.end()
                self._worker = None
            raise PolicyUnavailable("the organisation's rules did not answer") from None
        if not isinstance(answer, list) or len(answer) != len(inputs):
            raise PolicyUnavailable("the organisation's rules did not answer")
        return [_said(one) for one in answer]

    def _look(self) -> None:
        """Take what has changed, if it can be used; else what was in force stays so."""
        now = self._monotonic()
        if now - self._looked < _LOOK_SECONDS:
            return
        self._looked = now
        try:
            seen = _signature(self._path)
            if seen == self._seen:
                return
            self._seen = seen
            texts = _texts(self._path)
            if texts != self._texts:
                self._take(texts)
                _log.info("the rules in Rego changed", extra={"rules": self.label})
        except BadConfig as error:
            extra = {"rules": self.label, "reason": error.message}
            _log.warning("the rules in Rego cannot be used; those of before stay in force", extra=extra)

    def _take(self, texts: dict[str, str]) -> None:
        worker = _Worker(texts, self._path)
        if self._worker is not None:
            self._worker.end()
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
            found = self.ask({"modules": texts, "sample": SAMPLE}, _START_SECONDS)
        except (OSError, ValueError):
            self.end()
            raise BadConfig(f"{path}: the rules end the process that compiles them") from None
        if found == {"ready": True}:
            return
        self.end()
        if found.get("missing"):
            raise BadConfig(
                "rego is set, but the package regopy is not installed", hint="install it with: pip install regopy"
            )
        line = f":{found['line']}" if found.get("line") else ""
        raise BadConfig(f"{found.get('file') or path}{line}: {summary_of(str(found.get('error')))}")

    def ask(self, document: object, seconds: float) -> Any:  # noqa: ANN401  # what JSON holds
        """One line for another; OSError (TimeoutError) or ValueError when there is none."""
        assert self._process.stdin is not None and self._process.stdout is not None  # noqa: S101, PT018  # pipes
        self._process.stdin.write(json.dumps(document).encode() + b"\n")
        self._process.stdin.flush()
        ready, _, _ = select.select([self._process.stdout], [], [], seconds)
        if not ready:
            raise TimeoutError
        return json.loads(self._process.stdout.readline())

    def end(self) -> None:
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
    found = [
        os.path.join(folder, name)
        for folder, _, names in os.walk(path)
        for name in names
        if name.endswith(_ENDING) and not name.endswith(f"_test{_ENDING}") and not name.startswith(".")
    ]
    if not found:
        raise BadConfig(f"{path}: there is no {_ENDING} file", hint="the setting rego names a file or a folder")
    return sorted(found)


def _signature(path: str) -> Signature:
    try:
        about = [(file, os.stat(file)) for file in _files(path)]
    except OSError as error:
        raise BadConfig(f"{path}: {error.strerror}") from None
    return tuple([(file, one.st_mtime_ns, one.st_size, one.st_ino) for file, one in about])


def _texts(path: str) -> dict[str, str]:
    found: dict[str, str] = {}
    size = 0
    for file in _files(path):
        try:
            with open(file, "rb") as opened:
                content = opened.read(_MOST_BYTES + 1)
            found[file] = content.decode("utf-8")
        except OSError as error:
            raise BadConfig(f"{file}: {error.strerror}") from None
        except UnicodeDecodeError:
            raise BadConfig(f"{file}: is not UTF-8 text") from None
        size += len(content)
    if size > _MOST_BYTES:
        raise BadConfig(f"{path}: more than {_MOST_BYTES} bytes of rules")
    return found


# ---------------------------------------------------------------- question and answer


def input_of(proposal: Proposal, ruling: Ruling, receiver: Party) -> dict[str, Any]:
    """What the rules are told: who, to whom, what for and how secret. Nothing of what is said."""
    verdict, envelope = ruling.verdict, ruling.envelope
    return {
        "tenant": proposal.tenant,
        "sender": _party(proposal.sender),
        "receiver": _party(receiver),
        "to": proposal.to,
        "channel": proposal.channel_id,
        "purpose": ruling.begun.purpose.value,
        "initiates": proposal.sender.agent == ruling.begun.initiator,
        "origin": ruling.origin.value,
        "level": ruling.level.value,
        "findings": [one.name for one in ruling.found],
        "keywords": list(ruling.keywords),
        "shared": [one.classification.value for one in ruling.shared],
        "withheld": [one.classification.value for one in ruling.withheld],
        "round": envelope.exchange_round,
        "max_rounds": envelope.max_rounds,
        "hops": ruling.ext.hops,
        "verdict": verdict_name(verdict),
        "cause": verdict.cause.value if isinstance(verdict, Hold) else "",
        "approved": proposal.approval is not None,
    }


def _party(party: Party) -> dict[str, Any]:
    of = party.attributes
    return {
        "agent": party.agent,
        "user": party.user,
        "org_unit": of.org_unit,
        "team": of.team,
        "max_classification": of.max_classification.value,
        "human": party.human,
    }


_SOMEBODY = {
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
    "sender": _SOMEBODY,
    "receiver": {**_SOMEBODY, "agent": "bob"},
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


def _said(answer: object) -> Said:
    match answer:
        case {"deny": list() as deny, "hold": list() as hold} if all(isinstance(one, str) for one in (*deny, *hold)):
            return Said(tuple(deny), tuple(hold))
        case {"failed": str() as reason}:
            raise PolicyUnavailable(f"the organisation's rules failed: {reason}")
    raise PolicyUnavailable("the organisation's rules did not answer")


def _stricter(proposal: Proposal, ruling: Ruling, said: list[Said]) -> Ruling:
    """The ruling after what the rules said for each receiver; they leave out, hold or deny."""
    pairs = list(zip(ruling.receivers, said, strict=True))
    passing = tuple([one for one, about in pairs if not about.deny])
    if len(passing) < len(pairs):
        out = [(one.agent, PolicyDenied.code) for one, about in pairs if about.deny]
        ruling = ruling._replace(receivers=passing, excluded=(*ruling.excluded, *out), tightened=True)
    if not passing:
        facts = {"policy": ruling.policy.version, "rules": ruling.rules}
        denial = PolicyDenied(_told(text for about in said for text in about.deny), facts=facts)
        return with_verdict(proposal, ruling, Deny(denial))
    messages = [text for one, about in pairs if not about.deny for text in about.hold]
    # A person who has approved it has looked.
    if not messages or proposal.approval is not None:
        return ruling
    held = with_verdict(proposal, ruling, Hold(Cause.RULE, _told(messages)))
    return held._replace(tightened=True) if held.verdict is not ruling.verdict else held


def _told(messages: Any) -> str:  # noqa: ANN401  # an iterable of texts
    lines = [summary_of(one) for one in sorted(set(messages))]
    return "; ".join([one for one in lines if one][:_MOST_MESSAGES]) or "The organisation's rules do not allow it."
