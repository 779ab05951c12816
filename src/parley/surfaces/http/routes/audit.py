"""The audit log over HTTP: list, export, checkpoints, proofs, erasure. The key decides which entries are visible."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import UNSET

from parley.app.team.audit import checkpoints as audit_checkpoints
from parley.app.team.audit import counting, retention, verifying
from parley.app.team.audit import reading as audits
from parley.app.team.audit.reading import Filters
from parley.app.team.decisions import trials
from parley.domain.audit.checkpoint import key_id
from parley.domain.errors.errors import NotFound
from parley.surfaces.http.http1.message import Response
from parley.surfaces.http.route import ADMINS, READ_BY_ALL, Call, Param, Route, json
from parley.wire.api import audit as audit_api
from parley.wire.api import intents as openintent
from parley.wire.api.audit import ErasureIn
from parley.wire.api.records.audit import (
    AuditCheckpoint,
    AuditCheckpoints,
    AuditCounts,
    AuditExplanation,
    AuditLogState,
    AuditPage,
    AuditProof,
    Erasure,
)
from parley.wire.api.records.record import fill_record
from parley.wire.proofs import audit_log, audit_proof

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from parley.app.team.audit.reading import Sight

_LARGEST = 10**15
_PAGE = 1_000


async def list_page(call: Call) -> Response:
    query = call.query
    since, until = _period(call)
    filters = Filters(
        after=call.whole("after", 0, 0, _LARGEST),
        before=call.whole("before", 0, 0, _LARGEST),
        limit=call.whole("limit", 100, 1, call.team.limits.page),
        side=query.get("side", "") or query.get("agent", ""),
        exchange_id=query.get("exchange_id", ""),
        message_id=query.get("message_id", ""),
        conversation_id=query.get("conversation_id", ""),
        action=query.get("action", ""),
        outcome=query.get("outcome", ""),
        since=since,
        until=until,
        actor=query.get("actor", ""),
        code=query.get("code", ""),
        pair=call.pair("pair"),
    )
    page = await audits.page(call.team, call.caller, filters)
    entries = [audit_api.entry_of(entry) for entry in page.entries]
    return json(200, AuditPage(entries=entries, next=page.next or None, previous=page.previous or None))


async def state(call: Call) -> Response:
    log = await verifying.state(call.team, call.caller.tenant)
    return json(200, fill_record(AuditLogState, log, broken_at=log.broken_at or None, reason=log.why))


async def explain(call: Call) -> Response:
    explained = await trials.explain_entry(call.team, call.caller, call.params["entry_id"])
    return json(200, audit_api.explanation_of(*explained))


async def counts(call: Call) -> Response:
    by = call.choice("by", *counting.SPANS)
    since, until = _period(call)
    side = call.query.get("side", "")
    spans = await counting.count_by(call.team, call.caller, by, side=side, since=since, until=until)
    return json(200, audit_api.counts_of(by, *spans))


def _period(call: Call) -> tuple[str, str]:
    since, until = call.query.get("since", ""), call.query.get("until", "")
    return openintent.moment(since, "since"), openintent.moment(until, "until")


async def export(call: Call) -> Response:
    """Export the entries that the key may see, and the hashes of the others, so that the tree can be recomputed."""
    caller = call.caller
    side = call.query.get("side", "")
    since, until = _period(call)
    visible = (await audits.sight(call.team, caller)).narrowed(side)._replace(since=since, until=until)
    checkpoint = await audit_checkpoints.make(call.team, caller.tenant)
    size = checkpoint.size if checkpoint else await call.team.store.audit_size(caller.tenant)
    # The last checkpoint may be signed by an older key than the server has now.
    key = checkpoint.public_key if checkpoint else _public_key(call) or ""
    return Response(200, content_type=b"application/jsonl", stream=_lines(call, visible, size, key))


async def _lines(call: Call, visible: Sight, size: int, key: str) -> AsyncGenerator[bytes]:
    team, tenant = call.team, call.caller.tenant
    yield audit_log.header_line(
        audit_log.Header(
            parley_audit=audit_log.VERSION,
            tenant=tenant,
            public_key=key,
            size=size,
            sides=None if visible.sides is None else [*visible.sides],
            since=visible.since or UNSET,
            until=visible.until or UNSET,
        )
    )
    async for piece in audits.whole(team, tenant, size, visible):
        yield b"".join([audit_log.entry_line(entry, shown=shown) for entry, shown in piece])
    after = 0
    while page := await audit_checkpoints.list_page(team, tenant, after, _PAGE):
        page = tuple(checkpoint for checkpoint in page if checkpoint.size <= size)
        if not page:
            break
        yield b"".join([audit_log.checkpoint_line(checkpoint, wrapped=True) for checkpoint in page])
        after = page[-1].size
    yield audit_log.end_line(size)


async def checkpoints(call: Call) -> Response:
    after = call.whole("after", 0, 0, _LARGEST)
    limit = call.whole("limit", 100, 1, call.team.limits.page)
    page = await audit_checkpoints.list_page(call.team, call.caller.tenant, after, limit)
    public_key = _public_key(call)
    answer = AuditCheckpoints(
        public_key=public_key,
        key_id=key_id(public_key) if public_key else None,
        checkpoints=[audit_api.checkpoint_of(stored) for stored in page],
    )
    return json(200, answer)


async def checkpoint(call: Call) -> Response:
    text = call.params["size"]
    size = int(text) if text.isascii() and text.isdigit() and len(text) < 16 else 0
    if text == "latest":
        size = (await audit_checkpoints.mark_of(call.team, call.caller.tenant)).size
    checkpoint_record = await audit_checkpoints.of_size(call.team, call.caller.tenant, size)
    if checkpoint_record is None:
        raise NotFound.no_such("checkpoint")
    return json(200, audit_api.checkpoint_of(checkpoint_record))


async def proof(call: Call) -> Response:
    entry = await audits.get(call.team, call.caller, call.params["entry_id"])
    proven = await audit_checkpoints.prove(call.team, call.caller.tenant, entry)
    return Response(200, audit_proof.proof_document(*proven))


async def erase(call: Call) -> Response:
    body: ErasureIn = call.body
    done = await retention.erase(
        call.team, call.caller, conversation_id=body.conversation_id or "", agent_id=body.agent_id or ""
    )
    return json(201, Erasure(**done._asdict()))


async def _erase_again(call: Call, entry_id: str) -> Response:
    """What the audit log says of the erasure."""
    entry = await audits.get(call.team, call.caller, entry_id)
    facts = msgspec.json.decode(entry.document)
    counts = {name: facts[name] for name in ("messages", "exchanges", "approvals")}
    return json(201, Erasure(entry_id=entry_id, **counts))


def _public_key(call: Call) -> str | None:
    signer = call.team.audit.signer
    return signer.public_key.hex() if signer is not None else None


_TAG = "audit"
_AFTER = Param("after", "Only entries after this number.", "integer", 0, _LARGEST)
_LIMIT = Param("limit", "The maximum number of results.", "integer", 1, 1_000)
_SIDE = Param("side", "Only entries of this side: an agent, a person, or @tenant.")
_PERIOD = (
    Param("since", "Only entries from this time on."),
    Param("until", "Only entries before this time."),
)
ROUTES = (
    Route(
        "GET",
        "/audit",
        list_page,
        "List audit entries in order; next and previous are the numbers to page from",
        _TAG,
        {200: AuditPage},
        READ_BY_ALL,
        query=(
            _AFTER,
            Param("before", "The newest entries before this number, instead of the oldest.", "integer", 0, _LARGEST),
            _LIMIT,
            _SIDE,
            Param("agent", "The same as side."),
            Param("exchange_id", "Only entries of this exchange."),
            Param("message_id", "Only entries about this message."),
            Param("conversation_id", "Only entries of this conversation."),
            Param("action", "Only entries with this action, for example agent_exchange."),
            Param("outcome", "Only entries with this outcome."),
            Param("actor", "Only entries about what this agent, person or key did."),
            Param("code", "Only entries with this error code, for example classification_exceeded."),
            Param("pair", "Only messages between two agents: their names, separated by a comma."),
            *_PERIOD,
        ),
    ),
    Route(
        "GET",
        "/audit/state",
        state,
        "Get how far the audit log is signed and verified, and the first changed entry",
        _TAG,
        {200: AuditLogState},
        READ_BY_ALL,
    ),
    Route(
        "GET",
        "/audit/counts",
        counts,
        "Count audit entries by hour or day",
        _TAG,
        {200: AuditCounts},
        READ_BY_ALL,
        query=(Param("by", "The span to count by.", choices=tuple(counting.SPANS)), _SIDE, *_PERIOD),
    ),
    Route(
        "GET",
        "/audit/{entry_id}/explain",
        explain,
        "Explain an entry, by id or number: why its message was delivered, held or denied",
        _TAG,
        {200: AuditExplanation},
        READ_BY_ALL,
    ),
    Route(
        "GET",
        "/audit/export",
        export,
        "Export the audit log as JSON lines, verifiable without the server",
        _TAG,
        {200: str},
        READ_BY_ALL,
        query=(_SIDE, *_PERIOD),
        content_type="application/jsonl",
    ),
    Route(
        "GET",
        "/audit/checkpoints",
        checkpoints,
        "List the signed checkpoints, with the public key that verifies them",
        _TAG,
        {200: AuditCheckpoints},
        READ_BY_ALL,
        query=(_AFTER, _LIMIT),
    ),
    Route(
        "GET",
        "/audit/checkpoints/{size}",
        checkpoint,
        "Get the checkpoint over this number of entries, or the latest",
        _TAG,
        {200: AuditCheckpoint},
        READ_BY_ALL,
    ),
    Route(
        "GET",
        "/audit/proof/{entry_id}",
        proof,
        "Prove that an entry, by id or number, is covered by a signed checkpoint",
        _TAG,
        {200: AuditProof},
        READ_BY_ALL,
        refusals=(409,),
    ),
    Route(
        "POST",
        "/audit/erasures",
        erase,
        "Erase the content of a conversation, or of an agent's messages; the audit entries stay",
        _TAG,
        {201: Erasure},
        ADMINS,
        body=ErasureIn,
        again=_erase_again,
    ),
)
