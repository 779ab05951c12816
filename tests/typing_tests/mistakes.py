"""What a type checker has to find: both complain about every line that is marked, and about a mark without a mistake."""

from __future__ import annotations

import parley


def mistaken(client: parley.Client, channel: parley.Channel) -> None:
    client.ask(3, None, "bob", {})  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    client.ask(channel, {}, "bob", {})  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    client.send_mesage(channel.id)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    client.follow(channel.id)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    client.approve("appr_1")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    client.update_state("intent_1", {}, version="3")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    channel.name = "another"  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    print(channel.nmae)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownArgumentType]
    parley.ChannelOptions(audits=True)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    parley.Clent()  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]


async def not_awaited(client: parley.AsyncClient) -> str:
    return client.get_channel("chan_1").name  # type: ignore[attr-defined, no-any-return]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]
