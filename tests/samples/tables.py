"""A store in which a little of everything has happened, and its tables as they are."""

from __future__ import annotations

from dataclasses import replace

from parley.domain.audit.entry import AuditDraft
from parley.domain.channel.channel import Channel, Options
from parley.domain.channel.post import PostState, Receipt
from parley.domain.directory.callers import NO_TENANT, Saved, Tenant
from parley.domain.store.changes import ErasureQuery, Moved, Spend, TeamChanges
from parley.domain.store.tables import TABLES, Row
from parley.ports.team import StoreTables, TeamStore
from tests.contract.team_store import AT, a_channel, a_post, a_request, an_answer, an_entry, an_event, an_intent

ACME, GLOBEX, IDLE = "acme", "globex", "idle"


async def live(store: TeamStore, tenant: str, of: str = "1") -> None:
    """Everything that leaves a row somewhere, or changes one: posts evicted, moved, answered, erased; logs, budgets."""
    name = f"{tenant}_{of}"
    intent, channel, small = f"intent_{name}", f"chan_{name}", f"chan_small_{name}"
    await store.commit(
        TeamChanges(
            tenant,
            puts=(
                an_intent(intent, tenant),
                a_channel(channel, tenant),
                a_channel(small, tenant, most=2),
                Tenant(id=tenant if of == "1" else name, tenant_id=NO_TENANT, title="ü 日本", created_at=AT),
                an_intent(f"issued_{name}", IDLE),
            ),
            entries=(an_entry(), an_entry("intent_created")),
            events=(an_event(f"evt_{name}", intent), an_event(f"evt2_{name}", intent)),
        )
    )
    said = [a_post(f"msg_{name}_{n}", small, payload=b'{"n":%d}' % n) for n in range(5)]
    asked = a_request(f"ask_{name}", channel_id=channel)
    waiting = a_post(f"late_{name}", channel, state=PostState.PENDING, to="carol", recipients=())
    await store.commit(TeamChanges(tenant, posts=(*said, asked, waiting)))
    # It keeps fewer from now on: what it loses is counted.
    kept = await store.get(Channel, tenant, small)
    assert kept is not None
    await store.commit(TeamChanges(tenant, puts=(replace(kept, options=Options(max_messages=1)),)))
    answered = an_answer(f"answer_{name}", asked.id, channel_id=channel, exchange_id="exch_1")
    read = (Receipt(asked.id, "bob", AT), Receipt(f"msg_{name}_4", "bob", AT))
    await store.commit(
        TeamChanges(
            tenant,
            posts=(answered,),
            receipts=read,
            saved=Saved(f"scope_{name}", "f" * 64, "once", AT, answered.id, 201, b'{"said":1}'),
            audits=tuple([_fact(f"aud_{name}_{n}", ("alice", "bob")[n % 2]) for n in range(4)]),
            spends=(Spend("pair/alice,bob", 9), Spend("pair/alice,bob", 9, "2026-03")),
        )
    )
    await store.commit(TeamChanges(tenant, erase=(await store.words(tenant, ErasureQuery(("exch_1",)), 0))[0]))
    found = Moved(waiting.id, PostState.DELIVERED, ("carol",))
    await store.commit(TeamChanges(tenant, moved=(found,), events=(an_event(f"evt3_{name}", intent),)))


def _fact(name: str, side: str) -> AuditDraft:
    return AuditDraft(name, side, AT, "agent_exchange", side, {"exchange_id": "exch_1", "ü": "日本"}, "exch_1")


async def let_go(store: TeamStore, tenant: str, through: int = 2) -> None:
    await store.commit(TeamChanges(tenant, trim_audit=through))


async def tables(shelf: StoreTables, limit: int = 3) -> dict[str, list[Row]]:
    """Every row of every table, read by small pages."""
    found: dict[str, list[Row]] = {}
    for table in TABLES:
        rows = found[table.name] = []
        while page := await shelf.page(table, table.key_of(rows[-1]) if rows else None, limit):
            rows += page
    return found
