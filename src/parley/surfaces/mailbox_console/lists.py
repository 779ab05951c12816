"""Lists over the mailboxes of a project: agents, one inbox, conversations, reviews, owed answers, dead letters."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from parley.app.mailbox import overview
from parley.domain.errors.errors import UnknownAgent
from parley.surfaces.console.html import address, h, join
from parley.surfaces.console.parts import badge, data_table, empty, fresh, moment, note, tabs, tag
from parley.surfaces.console.visit import Page

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from parley.app.mailbox.overview import AgentOverview, ProjectReader, ThreadSummary
    from parley.domain.mailbox.listing import Item, RefusedFile
    from parley.domain.mailbox.waiting import OwedAnswer
    from parley.domain.message.review import Review
    from parley.surfaces.console.html import Html

# The script loads a page again when a mailbox changes, and after so many seconds: answers become late by themselves.
TOPICS = "mailboxes"
REFRESH_SECONDS = 10
# Rows of a list; the command line has all of them.
ROWS_MAX = 200
REVIEWS_MAX = 50
# Control characters, and bytes that are no UTF-8.
_NOT_IN_ADDRESSES = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
_URGENT = {"P0": "bad", "P1": "warn"}
# With the fields that a request for a review has to have.
_REVIEW_REQUEST = (
    "parley send AGENT --type review_request --subject 'Review #55' --set pr=#55 --set branch=BRANCH"
    " --set diff_summary='What changes' --project {}"
)
_STATES = {"approved": "ok", "escalated": "bad", "rejected": "bad"}


# ---------------------------------------------------------------- agents


def agents_page(project: ProjectReader, now: datetime) -> Page:
    """Every agent with what waits for it, who owes it an answer, and what was put aside."""
    agents = overview.agents(project)
    owing: dict[str, int] = {}
    for answer in (answer for agent in agents for answer in agent.owed):
        owing[answer.agent] = owing.get(answer.agent, 0) + 1
    headings = ("Agent", "In the inbox", "Most urgent", "Claimed", "Owes", "Is owed", "Dead letters")
    rows = [_agent_row(agent, owing.get(agent.agent, 0), now) for agent in agents]
    problems = [note("bad", h("b", agent.agent, dir="auto"), ": ", agent.problem) for agent in agents if agent.problem]
    table = data_table("Agents of the project", headings, rows) if agents else _no_agents(project)
    return _page("Agents", "agents", problems, table)


def _no_agents(project: ProjectReader) -> Html:
    words = "This project has no agents yet. An agent gets its mailbox with:"
    return empty(words, f"parley agent add NAME --project {project.name}")


def _agent_row(agent: AgentOverview, owes: int, now: datetime) -> Html:
    late = sum(answer.late for answer in agent.owed)
    first = next((item for item in agent.inbox if not item.problem), None)
    claimed = sum(item.status == "claimed" for item in agent.inbox)
    dead = len(agent.dead_letters)
    return h(
        "tr",
        h("th", badge(agent.agent), h("a", agent.agent, href=address("agents", agent.agent), dir="auto"), scope="row"),
        h("td", len(agent.inbox)),
        h("td", [priority_tag(first.priority), " ", moment(first.created_at, now)] if first else "-"),
        h("td", claimed),
        h("td", owes),
        h("td", len(agent.owed), [" ", tag(f"{late:,} late", "bad")] if late else None),
        h("td", tag(f"{dead:,}", "warn") if dead else "0"),
    )


# ---------------------------------------------------------------- one agent


def inbox_page(project: ProjectReader, now: datetime, agent: str) -> Page:
    """What waits in an inbox, in processing order."""
    view = _view(project, agent)
    rows = [_item_row(item, agent, now, item.sender) for item in view.inbox[:ROWS_MAX]]
    table = data_table(f"Inbox of {agent}", ("Subject", "Kind", "From", "Age", "State"), rows) if rows else None
    words = f"The inbox of {agent} is empty. A message gets here with:"
    hello = f"parley send {agent} 'Hello' --project {project.name}"
    more = _more(view.inbox, f"parley inbox --agent {agent} --project {project.name}")
    shown = join(table, more) if table else empty(words, hello)
    return _agent_page(view, "inbox", shown)


def sent_page(project: ProjectReader, now: datetime, agent: str) -> Page:
    """What an agent sent, newest first."""
    view = _view(project, agent)
    items = overview.outbox(project, agent)
    rows = [_item_row(item, agent, now, ", ".join(item.to)) for item in items[:ROWS_MAX]]
    table = data_table(f"Sent by {agent}", ("Subject", "Kind", "To", "Age", "State"), rows)
    shown = (
        join(table, _more(items, f"parley outbox --agent {agent} --project {project.name}"))
        if rows
        else note("", "Nothing was sent yet.")
    )
    return _agent_page(view, "sent", shown)


def _view(project: ProjectReader, agent: str) -> AgentOverview:
    for view in overview.agents(project):
        if view.agent == agent:
            return view
    raise UnknownAgent(f"no agent {agent!r} in {project.name}")


def _agent_page(view: AgentOverview, here: str, shown: Html) -> Page:
    views = tabs(
        (f"Inbox {len(view.inbox):,}", address("agents", view.agent), here == "inbox"),
        ("Sent", address("agents", view.agent, "sent"), here == "sent"),
    )
    crumb = h("p", h("a", "Agents", href=address("agents")), class_="crumb")
    title = h("h1", badge(view.agent), h("span", view.agent, dir="auto"))
    problem = note("bad", view.problem) if view.problem else None
    content = join(crumb, title, views, fresh("content-of-agent", problem, shown))
    return Page(view.agent, content, "agents", topics=TOPICS, every=REFRESH_SECONDS)


def _item_row(item: Item, agent: str, now: datetime, other: str) -> Html:
    if item.problem:
        return h("tr", h("th", _file_link(agent, item.file), scope="row"), h("td", "-"), h("td", "-"), h("td", "-"),
                 h("td", tag(item.status, "bad"), " ", item.problem))  # fmt: skip
    link = h("a", item.subject or item.id, href=address("agents", agent, "messages", item.id), dir="auto")
    doubts = [h("div", doubt, class_="muted") for doubt in item.doubts]
    return h(
        "tr",
        h("th", link, scope="row"),
        h("td", priority_tag(item.priority), " ", item.kind),
        h("td", other, dir="auto"),
        h("td", moment(item.created_at, now)),
        h("td", tag("expired") if item.expired else tag(item.status), doubts),
    )


def _more(rows: Sequence[object], line: str) -> Html | None:
    """Where to see the rows that a page leaves out."""
    left = len(rows) - ROWS_MAX
    return note("", f"{left:,} more: ", h("code", line)) if left > 0 else None


def priority_tag(priority: str) -> Html:
    """P0 to P3; the urgent ones stand out."""
    return tag(priority, _URGENT.get(priority, ""))


# ---------------------------------------------------------------- conversations


def threads_page(project: ProjectReader, now: datetime) -> Page:
    """All conversations, that with the newest message first."""
    threads = overview.threads(project)
    rows = [_thread_row(thread, now) for thread in threads[:ROWS_MAX]]
    headings = ("Subject", "Between", "Messages", "Newest")
    words = "Nobody has written yet. A conversation begins with:"
    hello = f"parley send AGENT 'Hello' --project {project.name}"
    shown = data_table("Conversations of the project", headings, rows) if rows else empty(words, hello)
    return _page("Threads", "threads", shown, _more(threads, f"parley thread --agent AGENT --project {project.name}"))


def _thread_row(thread: ThreadSummary, now: datetime) -> Html:
    link = h("a", thread.subject or thread.id, href=address("threads", thread.id), dir="auto")
    return h(
        "tr",
        h("th", link, [" ", tag("review")] if thread.is_review else None, scope="row"),
        h("td", ", ".join(thread.people), dir="auto"),
        h("td", thread.messages),
        h("td", moment(thread.newest_at, now)),
    )


def reviews_page(project: ProjectReader, now: datetime) -> Page:
    """The newest code reviews with their state, and who is to act."""
    rows = [_review_row(thread, review, now) for thread, review in overview.newest_reviews(project, REVIEWS_MAX)]
    headings = ("Change", "State", "Round", "Open findings", "Waits for", "Newest")
    words = "There are no reviews. An agent asks for one with:"
    shown = (
        data_table("The newest code reviews", headings, rows)
        if rows
        else empty(words, _REVIEW_REQUEST.format(project.name))
    )
    return _page("Reviews", "reviews", shown)


def _review_row(thread: ThreadSummary, review: Review | None, now: datetime) -> Html:
    link = h("a", thread.subject or thread.id, href=address("threads", thread.id), dir="auto")
    if review is None:
        return h("tr", h("th", link, scope="row"), h("td", "cannot be read"), [h("td", "-")] * 3,
                 h("td", moment(thread.newest_at, now)))  # fmt: skip
    return h(
        "tr",
        h("th", link, scope="row"),
        h("td", review_tag(review)),
        h("td", f"{review.round:,} of {review.rounds_allowed:,}"),
        h("td", len(review.open_findings)),
        h("td", review.waiting_for or "nobody", dir="auto"),
        h("td", moment(thread.newest_at, now)),
    )


def review_tag(review: Review) -> Html:
    """The state of a review."""
    return tag(review.state.value, _STATES.get(review.state.value, "warn"))


# ---------------------------------------------------------------- answers and dead letters


def waiting_page(project: ProjectReader, now: datetime) -> Page:
    """Who owes whom an answer, late ones first."""
    owed = [(agent.agent, answer) for agent in overview.agents(project) for answer in agent.owed]
    owed.sort(key=_urgency)
    rows = [_owed_row(agent, answer, now) for agent, answer in owed[:ROWS_MAX]]
    headings = ("Asked", "Owes", "To", "Since", "Due")
    shown = data_table("Answers that are owed", headings, rows) if rows else note("", "Nobody owes an answer.")
    return _page("Waiting", "waiting", shown, _more(owed, f"parley outbox --waiting --all --project {project.name}"))


def _urgency(entry: tuple[str, OwedAnswer]) -> tuple[bool, str, str]:
    return not entry[1].late, entry[1].item.priority, entry[1].item.created_at


def _owed_row(agent: str, answer: OwedAnswer, now: datetime) -> Html:
    item = answer.item
    state = tag("late", "bad") if answer.late else tag("acknowledged") if answer.acknowledged_by else None
    link = h("a", item.subject or item.id, href=address("agents", agent, "messages", item.id), dir="auto")
    return h(
        "tr",
        h("th", link, " ", priority_tag(item.priority), scope="row"),
        h("td", answer.agent, dir="auto"),
        h("td", agent, dir="auto"),
        h("td", moment(item.created_at, now)),
        h("td", moment(answer.due_at, now) if answer.due_at else "no date", " ", state),
    )


def dead_letters_page(project: ProjectReader, now: datetime) -> Page:  # as every page
    """Files that were put aside, and why."""
    files = [(agent.agent, file) for agent in overview.agents(project) for file in agent.dead_letters]
    rows = [_file_row(agent, file) for agent, file in files[:ROWS_MAX]]
    words = "No file was put aside. Files that are no messages, or cannot be finished, come here with the reason."
    shown = data_table("Files that were put aside", ("File", "Of", "Why"), rows) if rows else note("", words)
    return _page("Dead letters", "dead-letters", shown, _more(files, f"parley inbox --all --project {project.name}"))


def _file_row(agent: str, file: RefusedFile) -> Html:
    why = h("td", file.detail, h("div", h("code", file.code)), dir="auto")
    return h("tr", h("th", _file_link(agent, file.file), scope="row"), h("td", agent, dir="auto"), why)


def _file_link(agent: str, name: str) -> Html:
    """The link to a file that is no message; its name alone where no address can have it."""
    if _NOT_IN_ADDRESSES.search(name):
        return h("span", name, dir="auto")
    return h("a", name, href=address("agents", agent, "files", name), dir="auto")


def _page(title: str, step: str, *content: Html | list[Html] | None) -> Page:
    part = fresh(f"list-of-{step}", *content)
    return Page(title, join(h("h1", title), part), step, topics=TOPICS, every=REFRESH_SECONDS)
