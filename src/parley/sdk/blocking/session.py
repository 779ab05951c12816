# Written by tools/gen_client.py from sdk/client/session.py. Change that, then run: make docs
"""`parley.connect()`: a server as one agent or one person uses it, with channels, approvals and other agents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from parley.domain.errors.errors import Invalid
from parley.sdk.blocking.handle import ChannelHandle
from parley.sdk.blocking.pending import PendingApproval, pending
from parley.sdk.protocol import lookup
from parley.sdk.protocol.call_arguments import brief
from parley.sdk.tracebacks import short_tracebacks

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from types import TracebackType

    from parley.sdk.blocking.client import Client
    from parley.sdk.blocking.direct import Direct
    from parley.wire.api.records.channels import ChannelOptions
    from parley.wire.api.records.directory import AgentInfo

_PAGE = 500


@short_tracebacks
class ServerSession:
    """A server, as one agent or one person uses it. `client` has everything else: intents, tasks, keys, policies.

    with parley.connect(agent="research") as team:
        questions = team.channel("Research Q1", "questions")
        answer = questions.ask("data-agent", question="Which schema?")
        print(answer["schema"])
    """

    __module__ = "parley"

    def __init__(self, client: Client) -> None:
        self.client = client

    @property
    def agent(self) -> str:
        """Who speaks; empty when that follows from the key."""
        return self.client.agent

    @property
    def url(self) -> str:
        """Where the server is."""
        return self.client.url

    def channel(
        self,
        intent: str,
        name: str = "",
        *,
        access: str | Iterable[str] | None = None,
        create: bool = True,
        members: Iterable[str] | None = None,
        member_policy: str = "intent",
        options: Mapping[str, Any] | ChannelOptions | None = None,
    ) -> ChannelHandle:
        """A channel of an intent: `channel("Research Q1", "questions")`. What does not exist is created.

        `intent` is its title, its id or the end of its id; with one name alone, `channel("questions")`, the intent is
        that in PARLEY_INTENT, your only active one, or the one with the title `default`. `access` says who else takes
        part in an intent that is created: "open", or names of agents. `members`, `member_policy` and `options` are for
        a channel that is created. With `create=False` what does not exist is `NotFound`, with similar names.
        """
        for parameter, value in (("intent", intent), ("name", name)):
            if not isinstance(value, str):
                raise Invalid(f"channel: {parameter} is a text, not {brief(value)}")
        connection, session = self.client.connection, self.client.connection.session
        if not name:
            from parley.wiring import default_intent

            intent, name = default_intent(), intent
        if not intent:
            hint = f"name one: channel(intent=TITLE, name={name!r}), or set PARLEY_INTENT"
            flow = lookup.find_default_intent(session, create=create, hint=hint)
        elif create:
            flow = lookup.find_or_create_intent(session, intent, access)
        else:
            flow = lookup.find_intent(session, intent)
        intent_match = connection.run(flow)
        if intent_match.is_new:
            import logging

            logging.getLogger("parley").info('created the intent "%s"', intent_match.title)
        if not create:
            channel_id = connection.run(lookup.find_channel(session, intent_match, name))
            return ChannelHandle(self.client, channel_id, name, intent_match.id)
        channel = self.client.open_channel(intent_match.id, name, members, member_policy, options)
        return ChannelHandle(self.client, channel.id, channel.name, intent_match.id)

    def direct(self, agent: str) -> Direct:
        """Talk to one agent directly: `direct("writer").ask("How long?")`. Nobody else sees it."""
        return self.client.direct(agent)

    def approvals(self) -> list[PendingApproval]:
        """What waits for your decision, the oldest first. Needs the key of a person."""
        approvals: list[PendingApproval] = []
        after: str | None = None
        while page := self.client.list_approvals("pending", after=after, limit=_PAGE):
            approvals += [pending(approval, self.client) for approval in page if approval.barred is None]
            after = page[-1].id
            if len(page) < _PAGE:
                break
        return approvals

    def agents(self) -> list[AgentInfo]:
        """The agents that you can see; `agent.presence` says who is there: online, away or offline."""
        return self.client.list_agents()

    def close(self) -> None:
        """Let go of the connections; the next call opens new ones."""
        self.client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        agent = f", agent={self.agent!r}" if self.agent else ""
        return f"{type(self).__name__}({self.url!r}{agent})"
