"""The audit log over HTTP, as JSON: pages, checkpoints, proofs and erasures; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta, Raw, Struct

from parley.domain.rules.reasons import VERDICTS
from parley.wire.api.records.audit import AuditCheckpoint, AuditCount, AuditCounts, AuditEntry, AuditExplanation
from parley.wire.api.records.record import fill_record
from parley.wire.api.trials import steps_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from parley.domain.audit.checkpoint import AuditCheckpoint as StoredCheckpoint
    from parley.domain.audit.entry import AuditEntry as StoredEntry
    from parley.domain.rules.trial import TrialResult

# The rest of a time of which only the hour or day is named.
_SPAN_REST = "0000-00-00T00:00:00+00:00"
_Text = Annotated[str, Meta(min_length=1, max_length=256)]


class ErasureIn(Struct, forbid_unknown_fields=True):
    """What to erase: a conversation, or the messages of one agent or person."""

    conversation_id: _Text | None = None
    agent_id: _Text | None = None


def entry_of(stored: StoredEntry) -> AuditEntry:
    return fill_record(AuditEntry, stored, document=Raw(stored.document) if stored.document else None)


def explanation_of(
    stored: StoredEntry, facts: Mapping[str, Any], reasons: list[str], trial: TrialResult | None, with_content: bool
) -> AuditExplanation:
    """The explanation of an entry; `trial` is what the checks of then come to, where they could be run again."""
    return fill_record(
        AuditExplanation,
        stored,
        action=facts.get("action"),
        outcome=facts.get("outcome"),
        code=facts.get("code"),
        reasons=reasons,
        policy_version=facts.get("policy"),
        verdict=trial.word if trial else None,
        agrees=trial.word == VERDICTS.get(str(facts.get("outcome"))) if trial else None,
        with_content=with_content,
        steps=steps_of(trial) if trial else [],
    )


def counts_of(by: str, since: str, until: str, spans: Iterable[Any]) -> AuditCounts:
    """Counts by span; a span is named by the beginning of a time."""
    counts = [fill_record(AuditCount, span, at=f"{span.at}{_SPAN_REST[len(span.at) :]}") for span in spans]
    # Times are sent as they are stored.
    times: dict[str, Any] = {"since": since, "until": until}
    return AuditCounts(by=by, **times, counts=counts)


def checkpoint_of(stored: StoredCheckpoint) -> AuditCheckpoint:
    return fill_record(AuditCheckpoint, stored, tenant=stored.tenant_id)
