"""Policies over HTTP: an admin changes them, everybody reads those that concern them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.app.team.rules import policies
from parley.domain.rules.policy import Scope, document_name
from parley.surfaces.http.route import ADMINS, EVERYBODY, Call, Param, Route, json
from parley.wire.api import policies as policy_json
from parley.wire.api.policies import PolicyIn
from parley.wire.api.records.rules import Policies, Policy, PolicyInForce, PolicyRevision
from parley.wire.files.policy import read_policy

if TYPE_CHECKING:
    from parley.surfaces.http.http1.message import Response


async def list_page(call: Call) -> Response:
    label = call.query.get("label", "")
    snapshot = await policies.visible_snapshot(call.team, call.caller, label)
    # Files are the business of those who may write them.
    broken = call.team.policies.broken.get(call.caller.tenant, ()) if call.caller.all_seeing and not label else ()
    return json(200, policy_json.policies_of(snapshot, broken, texts=call.flag("texts")))


async def get(call: Call) -> Response:
    snapshot = await policies.get(call.team, call.caller, call.params["scope"], call.params["name"])
    return json(200, policy_json.documents_of(snapshot)[0])


async def put(call: Call) -> Response:
    body: PolicyIn = call.body
    scope, name = call.params["scope"], call.params["name"]
    document = document_name(scope, name)
    fragment = read_policy(body.text, f"{document}.yaml", scope=Scope(scope))
    now = await policies.put(call.team, call.caller, scope, name, body.text, fragment)
    return json(200, policy_json.policy_of(document, now.label, fragment, body.text))


async def remove(call: Call) -> Response:
    now = await policies.remove(call.team, call.caller, call.params["scope"], call.params["name"])
    return json(200, policy_json.policies_of(now, (), texts=False))


async def history(call: Call) -> Response:
    return json(
        200, [policy_json.revision_of(snapshot) for snapshot in await policies.history(call.team, call.caller.tenant)]
    )


async def in_force(call: Call) -> Response:
    effective = await policies.in_force(call.team, call.caller, call.query.get("agent", ""))
    return json(200, policy_json.in_force_of(*effective))


_TAG = "policies"
_ONE = "/policies/{scope}/{name}"
_LABEL = Param("label", "What was in force once, by its label; without it what is in force now.")
_TEXTS = Param("texts", "Whether the documents come with their texts.", "boolean")
_AGENT = Param("agent", "Whom it is in force for; without it whoever asks.")
ROUTES = (
    Route(
        "GET",
        "/policies",
        list_page,
        "List the policies in force, and the files that cannot be used",
        _TAG,
        {200: Policies},
        scope=EVERYBODY,
        query=(_LABEL, _TEXTS),
    ),
    Route(
        "GET",
        "/policies/effective",
        in_force,
        "Get what is in force for an agent, and which policy says so",
        _TAG,
        {200: PolicyInForce},
        scope=EVERYBODY,
        query=(_AGENT,),
    ),
    Route(
        "GET",
        "/policies/history",
        history,
        "List all that was in force, the newest first",
        _TAG,
        {200: list[PolicyRevision]},
        scope=ADMINS,
    ),
    Route("GET", _ONE, get, "Get a policy", _TAG, {200: Policy}, scope=EVERYBODY),
    Route("PUT", _ONE, put, "Put a policy into force", _TAG, {200: Policy}, scope=ADMINS, body=PolicyIn),
    Route("DELETE", _ONE, remove, "Take a policy out of force", _TAG, {200: Policies}, scope=ADMINS),
)
