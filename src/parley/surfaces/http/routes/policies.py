"""Policies over HTTP: admins change them, all callers read those that apply to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.app.team.rules import policies
from parley.domain.rules.policy import Scope, document_name, is_label
from parley.domain.times import stamp
from parley.surfaces.http.route import ADMINS, READ_BY_ADMINS, READ_BY_ALL, Call, Param, Route, json
from parley.wire.api import policies as policy_json
from parley.wire.api.channels import moment
from parley.wire.api.policies import PolicyIn
from parley.wire.api.records.rules import Policies, Policy, PolicyDifferences, PolicyInForce, PolicyRevision
from parley.wire.files.policy import read_policy

if TYPE_CHECKING:
    from parley.surfaces.http.http1.message import Response


async def list_page(call: Call) -> Response:
    label, at = call.query.get("label", ""), _version(call, "at")
    if label and not is_label(label):
        raise policies.no_such_version()
    snapshot = await policies.visible_snapshot(call.team, call.caller, label or at)
    is_now = not (label or at)
    # Only those who may write policy files see which are invalid.
    broken = call.team.policies.broken.get(call.caller.tenant, ()) if call.caller.all_seeing and is_now else ()
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
    effective = await policies.in_force(call.team, call.caller, call.query.get("agent", ""), _version(call, "at"))
    return json(200, policy_json.in_force_of(*effective))


async def diff(call: Call) -> Response:
    tenant = call.caller.tenant
    before = await policies.snapshot_at(call.team, tenant, _version(call, "from"))
    after = await policies.snapshot_at(call.team, tenant, _version(call, "to"))
    return json(200, policy_json.differences_of(before, after))


def _version(call: Call, name: str) -> str:
    """A version by its label, or by the stamp of a time at which it was in force; empty for the present one."""
    text = call.query.get(name, "")
    time = None if not text or is_label(text) else moment(text, name)
    return stamp(time) if time else text


_TAG = "policies"
_ONE = "/policies/{scope}/{name}"
_LABEL = Param("label", "The label of an earlier revision; without it, the policies in force now.")
_TEXTS = Param("texts", "Whether to include the text of each document.", "boolean")
_AGENT = Param("agent", "The agent; without it, the caller.")
_AT = Param("at", "A time at which they were in force, or the label of a version; without it, now.")
_FROM = Param("from", "The older version: a time at which it was in force, or its label; without it, now.")
_TO = Param("to", "The newer version, in the same way.")
ROUTES = (
    Route(
        "GET",
        "/policies",
        list_page,
        "List the policies in force, and the policy files that are invalid",
        _TAG,
        {200: Policies},
        scope=READ_BY_ALL,
        query=(_LABEL, _AT, _TEXTS),
    ),
    Route(
        "GET",
        "/policies/effective",
        in_force,
        "Get the effective policy of an agent, and where each value comes from",
        _TAG,
        {200: PolicyInForce},
        scope=READ_BY_ALL,
        query=(_AGENT, _AT),
    ),
    Route(
        "GET",
        "/policies/diff",
        diff,
        "Compare two versions of the policies, key by key",
        _TAG,
        {200: PolicyDifferences},
        scope=READ_BY_ADMINS,
        query=(_FROM, _TO),
    ),
    Route(
        "GET",
        "/policies/history",
        history,
        "List the revisions of the policies, newest first",
        _TAG,
        {200: list[PolicyRevision]},
        scope=READ_BY_ADMINS,
    ),
    Route("GET", _ONE, get, "Get a policy", _TAG, {200: Policy}, scope=READ_BY_ALL),
    Route("PUT", _ONE, put, "Put a policy into force", _TAG, {200: Policy}, scope=ADMINS, body=PolicyIn),
    Route("DELETE", _ONE, remove, "Take a policy out of force", _TAG, {200: Policies}, scope=ADMINS),
)
