"""Where each page is: its path below /console, the function that shows it, and the one that takes its form."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from parley.surfaces.console.menu import ADMIN, GOVERNS, NOT_AUDITORS, PERSON
from parley.surfaces.console.pages import (
    agents,
    approvals,
    audit,
    channels,
    exchanges,
    home,
    policies,
    policy_trials,
    servers,
    sessions,
    suspend,
    threads,
    traffic,
    webhooks,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from parley.surfaces.console.visit import Page, Redirect

    Shown = Page | Redirect
    # Gets the visit, and the steps of the path that the pattern leaves open.
    Handler = Callable[..., Awaitable[Shown]]


class PageRoute(NamedTuple):
    """A page: the steps of its path, `*` for any, and what shows it and takes its form.

    `forms_for`: the kinds of keys that its form is for. Others see none, and are refused when they send one.
    """

    steps: tuple[str, ...]
    show: Handler | None
    post: Handler | None = None
    forms_for: tuple[str, ...] = ()


ROUTES: tuple[PageRoute, ...] = (
    PageRoute((), home.first_page),
    PageRoute(("approvals",), approvals.list_page),
    # No approval, but a path of the API below them.
    PageRoute(("approvals", "count"), None),
    PageRoute(("approvals", "*"), approvals.detail_page, approvals.decide, (PERSON,)),
    PageRoute(("exchanges",), exchanges.list_page),
    PageRoute(("exchanges", "*"), exchanges.detail_page, exchanges.close, (PERSON,)),
    PageRoute(("audit",), audit.list_page),
    PageRoute(("audit", "*"), audit.detail_page),
    PageRoute(("traffic",), traffic.list_page),
    PageRoute(("policies",), policies.list_page),
    PageRoute(("policies", "diff"), policy_trials.diff_page),
    PageRoute(("policies", "try"), policy_trials.try_page, policy_trials.explain, GOVERNS),
    PageRoute(("policies", "*", "*"), policies.detail_page),
    PageRoute(("suspend",), suspend.list_page, suspend.change, (ADMIN,)),
    PageRoute(("servers",), servers.list_page),
    PageRoute(("webhooks",), webhooks.list_page),
    PageRoute(("webhooks", "*"), webhooks.detail_page, webhooks.change, NOT_AUDITORS),
    PageRoute(("channels",), channels.list_page),
    PageRoute(("channels", "*"), channels.detail_page),
    PageRoute(("channels", "*", "messages", "*"), channels.message_page),
    PageRoute(("threads", "*"), threads.detail_page),
    PageRoute(("agents",), agents.list_page),
    PageRoute(("agents", "*"), agents.detail_page),
    PageRoute(("sessions",), sessions.list_page, sessions.end, NOT_AUDITORS),
)


def find_route(steps: list[str]) -> PageRoute | None:
    """The page at these steps of a path; a name is taken before a pattern."""
    fitting = [route for route in ROUTES if _matches(route.steps, steps)]
    return min(fitting, key=lambda route: route.steps.count("*"), default=None)


def open_steps(route: PageRoute, steps: list[str]) -> list[str]:
    """The steps of a path that the pattern of its page leaves open."""
    return [step for pattern, step in zip(route.steps, steps, strict=True) if pattern == "*"]


def _matches(pattern: tuple[str, ...], steps: list[str]) -> bool:
    return len(pattern) == len(steps) and all(one in ("*", step) for one, step in zip(pattern, steps, strict=True))
