"""Failures of agents: how one travels in an answer, and how the asker's call raises it; pure.

An answer that is an error has `metadata.error`, the code, and `payload.error`: code, message, agent, and `chain` when
the agent failed because another one did. The chain leads from the agent that answers down to the one that failed first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from parley.domain.errors.team import AgentFailed
from parley.domain.names import is_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from parley.wire.api.records.channels import ChannelMessage

FAILURE_TEXT_MAX_CHARS = 500
# Agents in a chain; in a longer one `...` stands for those in the middle.
_CHAIN_MAX = 10
_ELLIPSIS = "..."


class Failure(NamedTuple):
    """Why a request gets no real answer. `chain` has the agents below the one that answers."""

    code: str
    message: str
    chain: tuple[str, ...] = ()

    def payload(self, agent: str) -> dict[str, Any]:
        """The payload of the answer that `agent` gives."""
        error: dict[str, Any] = {"code": self.code, "message": self.message, "agent": agent}
        if self.chain:
            error["chain"] = list(_bounded((agent, *self.chain)))
        return {"error": error}

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata of the answer, by which the asker's SDK knows it."""
        return {"error": self.code}


def check_answer(answer: ChannelMessage) -> ChannelMessage:
    """Return an answer, or raise `AgentFailed` when it is an error."""
    failed = failure_in(answer.sender, answer.payload, answer.metadata)
    if failed is not None:
        failed.answer = answer
        raise failed
    return answer


def failure_in(sender: str, payload: Mapping[str, Any], metadata: Mapping[str, Any]) -> AgentFailed | None:
    """The failure that an answer stands for; None for a real answer. Nothing in it is taken for granted."""
    code, error = metadata.get("error"), payload.get("error")
    if not code or not error:
        return None
    fields = error if isinstance(error, dict) else {"message": error}
    reason = str(fields.get("message") or "")[:FAILURE_TEXT_MAX_CHARS]
    chain = _chain_of(sender, fields.get("chain"))
    failed = AgentFailed(f"{' <- '.join(chain)}: {reason}")
    if isinstance(code, str) and is_name(code):
        failed.code = code
    failed.agent, failed.chain, failed.reason = sender, chain, reason
    return failed


def _chain_of(sender: str, chain: object) -> tuple[str, ...]:
    """The chain that an answer names, which begins with its sender."""
    below = chain[1:] if isinstance(chain, list) else []
    names = [name for name in below if isinstance(name, str) and (name == _ELLIPSIS or is_name(name))]
    return _bounded((sender, *names))


def _bounded(chain: Sequence[str]) -> tuple[str, ...]:
    if len(chain) <= _CHAIN_MAX:
        return tuple(chain)
    return (*chain[: _CHAIN_MAX - 2], _ELLIPSIS, chain[-1])
