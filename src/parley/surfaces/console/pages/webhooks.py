"""Webhooks: subscriptions with what waits behind them, their last tries, and forms to switch one and to test it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.surfaces.console.html import address, h, join
from parley.surfaces.console.parts import data_table, empty, fact, fresh, moment, note, tag
from parley.surfaces.console.visit import ApiRefused, Page, Redirect

if TYPE_CHECKING:
    from parley.surfaces.console.html import Html
    from parley.surfaces.console.visit import Document, Visit

_MENU = "webhooks"
_REFRESH_SECONDS = 5
# Items that wait are counted up to here.
_COUNTED_MAX = 1_000
_REASONS = {
    "failed": "every try failed",
    "gone": "the receiver answered 410 Gone",
    "key_invalid": "the key that created it is not valid any more",
    "no_endpoint": "the agent has no endpoint any more",
    "switched_off": "disabled by hand",
}


# ---------------------------------------------------------------- the list


async def list_page(visit: Visit) -> Page:
    """Every subscription that the caller may see; those in trouble first."""
    subscriptions: list[Document] = await visit.get("subscriptions")
    subscriptions.sort(key=lambda subscription: (_trouble(subscription), subscription["created_at"]))
    content = join(h("h1", "Webhooks"), fresh("webhooks", _list(visit, subscriptions)))
    return Page("Webhooks", content, _MENU, every=_REFRESH_SECONDS)


def _trouble(subscription: Document) -> int:
    """Order of the list: failing now, disabled because of failures, failed lately, in order, disabled by hand."""
    if not subscription["active"]:
        return 4 if subscription["disabled_reason"] == "switched_off" else 1
    if subscription["tries"]:
        return 0
    return 2 if subscription["failed_24h"] else 3


def _list(visit: Visit, subscriptions: list[Document]) -> Html:
    if not subscriptions:
        about = (
            " A subscription pushes messages and events to an address as they happen. Agents subscribe with their key:"
        )
        return empty(
            [h("b", "There are no webhooks."), about],
            'curl $PARLEY_URL/api/v1/subscriptions -H "X-API-Key: $PARLEY_KEY" -H "X-Agent-ID: NAME"'
            """ -H 'Content-Type: application/json' -d '{"webhook_url": "https://example.org/hooks/parley"}'""",
        )  # fmt: skip
    headings = ("Address", "Agent", "State", "Waiting", "Failed in 24 h", "Last try")
    return data_table("Webhook subscriptions", headings, [_row(visit, subscription) for subscription in subscriptions])


def _row(visit: Visit, subscription: Document) -> Html:
    name = subscription["webhook_url"] or "a stream, no address"
    last = subscription["last_attempt"]
    return h(
        "tr",
        h("th", h("a", name, href=address("webhooks", subscription["id"]), dir="auto"), scope="row"),
        h("td", subscription["subscriber_id"] or "the tenant", dir="auto"),
        h("td", _state(subscription)),
        h("td", _waiting(subscription)),
        h("td", subscription["failed_24h"]),
        h("td", [_result(last), " ", moment(last["at"], visit.now)] if last else "none yet"),
    )


def _state(subscription: Document) -> Html:
    if not subscription["active"]:
        reason = subscription["disabled_reason"] or ""
        return tag("disabled", "" if reason == "switched_off" else "bad")
    return tag("failing", "bad") if subscription["tries"] else tag("active", "ok")


def _waiting(subscription: Document) -> str:
    count = subscription["waiting"]
    return f"{count:,} or more" if count >= _COUNTED_MAX else f"{count:,}"


def _result(attempt: Document) -> Html:
    """What came of a try: the status of the answer, or why there was none."""
    status = attempt["status"]
    if status is None:
        return tag(attempt["error"] or "no answer", "bad")
    return tag(str(status), "ok" if 200 <= status < 300 else "bad")


# ---------------------------------------------------------------- one subscription


async def detail_page(visit: Visit, subscription_id: str, problem: ApiRefused | None = None) -> Page:
    """One subscription: what it pushes, its state, its last tries, and the forms."""
    subscription: Document = await visit.get("subscriptions", subscription_id)
    attempts: list[Document] = await visit.get("subscriptions", subscription_id, "attempts")
    name = subscription["webhook_url"] or "A stream, no address"
    content = join(
        h("p", h("a", "Webhooks", href=address("webhooks")), class_="crumb"),
        h("h1", name, dir="auto"),
        note("bad", h("b", "Not done: "), problem.detail, h("p", h("code", problem.code)), role="alert")
        if problem else None,
        fresh("state", _why(visit, subscription), h("dl", _facts(visit, subscription), class_="facts"),
              _last_test(visit, subscription)),
        _forms(subscription),
        fresh("attempts", _attempts(visit, attempts)),
    )  # fmt: skip
    status = problem.status if problem else 200
    return Page(f"Webhook {name}", content, _MENU, status=status, every=_REFRESH_SECONDS)


async def change(visit: Visit, subscription_id: str) -> Page | Redirect:
    """Enable or disable it, or send a test; a refusal is shown above it."""
    act = visit.form.get("act", "")
    try:
        if act == "test":
            await visit.post("subscriptions", subscription_id, "test", body={})
        elif act in ("enable", "disable"):
            await visit.patch("subscriptions", subscription_id, body={"active": act == "enable"})
    except ApiRefused as refused:
        if refused.status in (401, 404):
            raise
        return await detail_page(visit, subscription_id, refused)
    return Redirect(address("webhooks", subscription_id))


def _why(visit: Visit, subscription: Document) -> Html | None:
    """What is the matter with it, in a sentence."""
    if not subscription["active"]:
        reason = subscription["disabled_reason"] or ""
        kind = "" if reason == "switched_off" else "bad"
        later = " What waits is pushed when it is enabled again."
        return note(kind, h("b", "Disabled: "), _REASONS.get(reason, reason), ".", later)
    if subscription["tries"]:
        next_try = subscription["next_try_at"]
        times = "try" if subscription["tries"] == 1 else "tries"
        when = [" Next try: ", moment(next_try, visit.now), "."] if next_try else None
        return note("bad", h("b", "Failing: "), f"{subscription['tries']:,} {times} of one item failed.", when)
    return None


def _facts(visit: Visit, subscription: Document) -> list[Html]:
    follows = " (follows the endpoint that the agent registered)" if subscription["follows_endpoint"] else ""
    return [
        fact("State", _state(subscription)),
        fact("Waiting", _waiting(subscription)),
        fact("Failed in 24 h", subscription["failed_24h"]),
        fact("Agent", h("span", (subscription["subscriber_id"] or "the tenant") + follows, dir="auto")),
        fact("What", ", ".join(subscription["event_types"]) or "all messages and events"),
        fact("Intent", h("code", subscription["intent_id"]) if subscription["intent_id"] else "all"),
        fact("Created", moment(subscription["created_at"], visit.now)),
        fact("Ends", moment(subscription["expires_at"], visit.now) if subscription["expires_at"] else "never"),
        fact("Subscription", h("code", subscription["id"])),
    ]


def _last_test(visit: Visit, subscription: Document) -> Html | None:
    test = subscription["last_test"]
    if test is None:
        return None
    status = test["status"]
    is_accepted = status is not None and 200 <= status < 300
    words = "The last test was accepted " if is_accepted else "The last test failed "
    return note("ok" if is_accepted else "bad", words, _result(test), " ", moment(test["at"], visit.now))


def _forms(subscription: Document) -> Html:
    is_active = subscription["active"]
    switch = _button("Disable", "disable", "danger") if is_active else _button("Enable", "enable", "primary")
    test = _button("Send a test", "test", "") if subscription["webhook_url"] else None
    return h("form", switch, test, method="post", action=address("webhooks", subscription["id"]), class_="buttons acts")


def _button(words: str, act: str, kind: str) -> Html:
    return h("button", words, name="act", value=act, class_=kind or None)


def _attempts(visit: Visit, attempts: list[Document]) -> Html:
    if not attempts:
        return note("", "Nothing has been pushed yet.")
    rows = [
        h("tr", h("td", moment(attempt["at"], visit.now)), h("td", _result(attempt)), h("td", attempt["number"]),
          h("td", h("code", attempt["item_id"])))
        for attempt in attempts
    ]  # fmt: skip
    return data_table("Last tries", ("When", "Answer", "Try", "Item"), rows)
