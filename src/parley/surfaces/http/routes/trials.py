"""Policy trials over HTTP, for admins: explain and replay. Nothing is sent or changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.app.team.decisions import trials
from parley.domain.rules.policy import Scope, document_name
from parley.domain.times import stamp
from parley.surfaces.http.route import READ_BY_ADMINS, Call, Route, json
from parley.wire.api import trials as wire
from parley.wire.api.channels import moment
from parley.wire.api.records.rules import Explanation, Replay
from parley.wire.api.trials import ExplainIn, ReplayIn
from parley.wire.files.policy import read_policy

if TYPE_CHECKING:
    from parley.domain.rules.policy import Fragment
    from parley.surfaces.http.http1.message import Response


async def explain(call: Call) -> Response:
    body: ExplainIn = call.body
    explanation = await trials.explain(call.team, call.caller, body.sender, body.to, wire.trial_of(body))
    return json(200, wire.explanation_of(explanation))


async def replay(call: Call) -> Response:
    body: ReplayIn = call.body
    documents: dict[str, tuple[str, Fragment | None]] = {}
    for name, text in body.documents.items():
        scope, _, rest = name.partition("/")
        document = document_name(scope, rest)
        read = None if text is None else read_policy(text, f"{document}.yaml", scope=Scope(scope))
        documents[document] = (text or "", read)
    snapshot = await trials.proposed(call.team, call.caller.tenant, documents)
    since = moment(body.since, "since")
    begin = stamp(since) if since else ""
    replayed = await trials.replay(call.team, call.caller, snapshot, since=begin, after=body.after, most=body.limit)
    return json(
        200, wire.replay_of(replayed.messages, replayed.with_content, replayed.label, replayed.changes, replayed.next)
    )


_TAG = "policies"
ROUTES = (
    Route(
        "POST",
        "/policies/explain",
        explain,
        "Explain how the policies would treat a message",
        _TAG,
        {200: Explanation},
        scope=READ_BY_ADMINS,
        body=ExplainIn,
    ),
    Route(
        "POST",
        "/policies/replay",
        replay,
        "Replay recorded messages under changed policies",
        _TAG,
        {200: Replay},
        scope=READ_BY_ADMINS,
        body=ReplayIn,
    ),
)
