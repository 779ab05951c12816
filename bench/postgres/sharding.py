"""Sharding by tenant, simulated: 10^5 tenants, 10^6 messages a second. How many databases, and what breaks first.

Small and seeded: `python -m bench.postgres.sharding`. Service times are chosen between measured ends; tenants are
unequal as tenants are (Zipf). A shard is one PostgreSQL with its nodes. A lane of a node writes what has queued up in
one transaction, and holds the head rows of all tenants in it until that is durable.
"""

from __future__ import annotations

import heapq
import math
import zlib
from random import Random
from typing import NamedTuple

from bench.figures import Figure
from bench.measure import Sample
from bench.postgres.nodes import shown
from bench.workspace import Bench

_TENANTS = 100_000
_RATE = 1_000_000.0
_SEED = 6
_DRAWN = 0.8


class Costs(NamedTuple):
    """In seconds and bytes: chosen between what one small machine did at rest and overloaded, then what is assumed."""

    # One transaction holds the head rows so long, and so much longer for each message in it: between what bare groups
    # take on a machine at rest (1 ms, 60 us) and on one that is overloaded (6 ms, 125 us).
    transaction: float = 0.0025
    message: float = 0.000_08
    # By throughput, one node, 64 tenants and 64 connections.
    database_cpu: float = 0.000_05
    node_cpu: float = 0.000_075
    log_bytes: int = 1150
    # Every transaction ends with one notification, which each listening node has to look at (by a profile).
    heard_cpu: float = 0.000_1
    # Assumed.
    cores: int = 8
    full: float = 0.6
    log_bandwidth: float = 250e6

    @property
    def shard(self) -> float:
        """Messages a second that one PostgreSQL takes: cores or log, whichever is less, and not to the brim."""
        return self.full * min(self.cores / self.database_cpu, self.log_bandwidth / self.log_bytes)

    @property
    def tenant(self) -> float:
        """Messages a second behind one head row: full groups, one after the other, and not to the brim."""
        return self.full * _GROUP / (self.transaction + _GROUP * self.message)


_GROUP = 512
_CONNECTIONS = 10
_FAILOVER_SECONDS = 20.0


def weights(exponent: float) -> list[float]:
    """Messages a second of each tenant, the largest first."""
    parts = [1 / rank**exponent for rank in range(1, _TENANTS + 1)]
    whole = sum(parts)
    return [part / whole * _RATE for part in parts]


def by_hash(loads: list[float], shards: int) -> list[int]:
    """Nobody decides: where a tenant lives follows from its name."""
    return [zlib.crc32(b"tenant-%d" % tenant) % shards for tenant in range(len(loads))]


def by_load(loads: list[float], shards: int, moves: int) -> list[int]:
    """From there, so many tenants at most are moved: off the fullest shard to the emptiest, the largest that fits."""
    places = by_hash(loads, shards)
    sums = summed(loads, places, shards)
    held: list[list[int]] = [[] for _ in range(shards)]
    for tenant, place in enumerate(places):  # the largest first
        held[place].append(tenant)
    average = sum(loads) / shards
    for _ in range(moves):
        fullest, emptiest = max(range(shards), key=sums.__getitem__), min(range(shards), key=sums.__getitem__)
        room = average - sums[emptiest]
        fitting = next((at for at, tenant in enumerate(held[fullest]) if loads[tenant] <= room), None)
        if fitting is None or sums[fullest] <= average * 1.02:
            break
        tenant = held[fullest].pop(fitting)
        held[emptiest].append(tenant)
        held[emptiest].sort()
        places[tenant] = emptiest
        sums[fullest] -= loads[tenant]
        sums[emptiest] += loads[tenant]
    return places


def summed(loads: list[float], places: list[int], shards: int) -> list[float]:
    sums = [0.0] * shards
    for load, place in zip(loads, places, strict=True):
        sums[place] += load
    return sums


def shards_needed(loads: list[float], costs: Costs, moves: int) -> tuple[int, list[int]]:
    """The fewest shards of which none is fuller than it may be, and who lives where."""
    count = math.ceil(sum(loads) / costs.shard)
    while True:
        places = by_load(loads, count, moves)
        if max(summed(loads, places, count)) <= costs.shard:
            return count, places
        count += max(1, count // 20)


class Waits(NamedTuple):
    """How long messages waited until they were durable; what was carried; and what the other nodes had to hear."""

    p50: float
    p99: float
    carried: float
    transactions: float
    behind: bool

    def shown(self, seconds: float) -> str:
        return "falls behind" if self.behind else f"{seconds * 1e3:.1f} ms"


def waits(loads: list[float], costs: Costs, *, pinned: bool, seconds: float = 3.0) -> Waits:
    """A shard at work, message by message.

    `pinned`: a tenant's messages come to as few nodes as can carry it; else to any, and they meet at its head row.
    """
    random = Random(_SEED)
    whole = sum(loads)
    nodes = nodes_of(whole, costs)
    lanes = 2 * nodes
    homes = pins(loads, nodes, costs) if pinned else []
    slow = slowed(whole * costs.database_cpu / costs.cores, costs.cores)
    queues: list[list[tuple[float, int]]] = [[] for _ in range(lanes)]
    at, chosen = 0.0, random.choices(range(len(loads)), loads, k=int(whole * seconds))
    for tenant in chosen:
        at += random.expovariate(whole)
        host = random.choice(homes[tenant]) if pinned else random.randrange(nodes)
        queues[2 * host + tenant % 2].append((at, tenant))
    free: dict[int, float] = {}
    times: list[float] = []
    heads, transactions, end = [0] * lanes, 0, 0.0
    ready = [(queue[0][0], lane) for lane, queue in enumerate(queues) if queue]
    heapq.heapify(ready)
    while ready:
        now, lane = heapq.heappop(ready)
        queue, first = queues[lane], heads[lane]
        last = first
        while last < len(queue) and queue[last][0] <= now and last - first < _GROUP:
            last += 1
        batch = queue[first:last]
        begin = max(now, max((free.get(tenant, 0.0) for _, tenant in batch), default=now))
        end = begin + (costs.transaction + len(batch) * costs.message) * slow
        for came, tenant in batch:
            free[tenant] = end
            times.append(end - came)
        heads[lane], transactions = last, transactions + 1
        if last < len(queue):
            heapq.heappush(ready, (max(end, queue[last][0]), lane))
    over = max([end, *free.values()])
    times.sort()
    p50, p99 = times[len(times) // 2], times[int(len(times) * 0.99)]
    return Waits(p50, p99, len(times) / over, transactions / over, over > 1.2 * seconds)


def pins(loads: list[float], nodes: int, costs: Costs) -> list[list[int]]:
    """Which nodes serve each tenant: one, or as many as it fills; those that have the least to do."""
    busy = [(0.0, host) for host in range(nodes)]
    homes = []
    for load in loads:  # the largest first
        few = min(nodes, max(1, math.ceil(load * costs.node_cpu / costs.full)))
        chosen = [heapq.heappop(busy) for _ in range(few)]
        homes.append([host for _, host in chosen])
        for work, host in chosen:
            heapq.heappush(busy, (work + load / few, host))
    return homes


def slowed(busy: float, cores: int) -> float:
    """How much longer everything takes when so much of the cores is busy (Sakasegawa's approximation)."""
    return 1 + math.pow(busy, math.sqrt(2 * (cores + 1)) - 1) / (cores * (1 - min(0.95, busy)))


def nodes_of(rate: float, costs: Costs) -> int:
    """Nodes, of one core each, for so many messages a second."""
    return max(2, math.ceil(rate * costs.node_cpu / costs.full))


class Outcome(NamedTuple):
    """What a town of tenants needs."""

    exponent: float
    beyond: int
    beyond_share: float
    hashed: int
    moved: int
    best: int
    hottest: float
    bars: tuple[str, str]
    spread: Waits
    pinned: Waits
    nodes: int


def simulate(exponent: float, costs: Costs) -> Outcome:
    loads = weights(exponent)
    beyond = [load for load in loads if load > costs.tenant]
    # Whoever is beyond one head row gets what it gives; the rest of it has to go elsewhere, whatever the shards.
    capped = [min(load, costs.tenant) for load in loads]
    hashed, _ = shards_needed(capped, costs, 0)
    moved, places = shards_needed(capped, costs, 1_000)
    best = math.ceil(sum(capped) / costs.shard)
    sums = summed(capped, places, moved)
    hottest = max(range(moved), key=sums.__getitem__)
    there = [load for load, place in zip(capped, places, strict=True) if place == hottest]
    spread, pinned = waits(there, costs, pinned=False), waits(there, costs, pinned=True)
    share = (sum(loads) - sum(capped)) / _RATE
    full, nodes = sums[hottest] / costs.shard, nodes_of(sum(capped), costs)
    bars = (picture(summed(capped, by_hash(capped, moved), moved), costs.shard), picture(sums, costs.shard))
    return Outcome(exponent, len(beyond), share, hashed, moved, best, full, bars, spread, pinned, nodes)


def picture(sums: list[float], full: float) -> str:
    """The load of every shard: the highest bar is one and a half times what it may carry, or more."""
    return "".join("▁▂▃▄▅▆▇█"[min(7, int(load / full * 16 / 3))] for load in sums)


_HEADS = ("tenants", "Zipf 0.6", "Zipf 0.8", "Zipf 1.0")


def report(outcomes: list[Outcome], costs: Costs) -> str:
    per_shard = [outcome.nodes / outcome.moved for outcome in outcomes]
    lines = [
        ("the largest tenant", [f"{weights(outcome.exponent)[0]:,.0f}/s" for outcome in outcomes]),
        (f"tenants beyond one head row ({costs.tenant:,.0f}/s)", [f"{outcome.beyond}" for outcome in outcomes]),
        ("  messages that have no place", [f"{outcome.beyond_share:.1%}" for outcome in outcomes]),
        (f"databases of {costs.shard:,.0f}/s, by hash", [f"{outcome.hashed}" for outcome in outcomes]),
        ("  after 1,000 moves", [f"{outcome.moved}" for outcome in outcomes]),
        ("  at the very least", [f"{outcome.best}" for outcome in outcomes]),
        ("the hottest, of what it may carry", [f"{outcome.hottest:.0%}" for outcome in outcomes]),
        ("  p99 there, a tenant to any node", [outcome.spread.shown(outcome.spread.p99) for outcome in outcomes]),
        ("    it carries", [f"{outcome.spread.carried:,.0f}/s" for outcome in outcomes]),
        ("  p99 there, a tenant to its node", [outcome.pinned.shown(outcome.pinned.p99) for outcome in outcomes]),
        ("    it carries", [f"{outcome.pinned.carried:,.0f}/s" for outcome in outcomes]),
        ("    transactions a second", [f"{outcome.pinned.transactions:,.0f}" for outcome in outcomes]),
        ("nodes of one core in all", [f"{outcome.nodes:,}" for outcome in outcomes]),
        ("connections to one database", [f"{nodes * _CONNECTIONS:,.0f}" for nodes in per_shard]),
        (
            "cores of its nodes that only hear wake-ups",
            [
                f"{outcome.pinned.transactions * nodes * costs.heard_cpu:.1f}"
                for outcome, nodes in zip(outcomes, per_shard, strict=True)
            ],
        ),
        (
            "log of one database",
            [f"{outcome.hottest * costs.shard * costs.log_bytes / 1e6:,.0f} MB/s" for outcome in outcomes],
        ),
        (
            f"refused while one fails over ({_FAILOVER_SECONDS:.0f} s), of all",
            [f"{1 / outcome.moved:.1%}" for outcome in outcomes],
        ),
    ]
    return shown(_HEADS, [(what, *cells) for what, cells in lines])


def main(costs: Costs | None = None) -> list[Outcome]:
    given_costs = costs or Costs()
    print(f"\n{_TENANTS:,} tenants, {_RATE:,.0f} messages a second in all: a simulation")
    outcomes = [simulate(exponent, given_costs) for exponent in (0.6, 0.8, 1.0)]
    print(report(outcomes, given_costs), flush=True)
    for outcome in outcomes:
        if outcome.exponent == _DRAWN:
            print(f"load of {outcome.moved} databases, Zipf {outcome.exponent}: ▆ is what one may carry")
            print(f"  by hash      {outcome.bars[0]}\n  1,000 moves  {outcome.bars[1]}")
    return outcomes


def run(bench: Bench) -> list[Figure]:
    del bench
    outcomes = main()
    return [
        Figure(
            "sharding", f"simulated p99, hottest shard, Zipf {outcome.exponent}", "ms", Sample((outcome.pinned.p99,))
        )
        for outcome in outcomes
    ]


if __name__ == "__main__":
    main()
