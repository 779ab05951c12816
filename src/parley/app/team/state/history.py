"""What this server did in the last ten minutes, in steps of ten seconds: in memory only, and of bounded size.

Other servers know it from its heartbeats. A restart begins anew.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import TYPE_CHECKING

from parley.domain.store.node import NodeSample

if TYPE_CHECKING:
    from datetime import datetime

    from parley.domain.store.node import Node

STEP_SECONDS = 10
STEPS_MAX = 60
# Codes of refusals that a step tells apart; the rest is counted together.
_CODES_MAX = 8
OTHER_CODES = "other"


class NodeHistory:
    """Steps of the last minutes, the last one still growing."""

    def __init__(self) -> None:
        self._steps: deque[NodeSample] = deque(maxlen=STEPS_MAX - 1)
        self._step = NodeSample(0)
        self._requests = 0
        self._refusals: Counter[str] = Counter()

    def count_request(self, refusal: str = "") -> None:
        """One more request was answered; `refusal` is the code of one that was refused."""
        self._requests += 1
        if refusal:
            self._refusals[refusal] += 1

    def observe(self, now: datetime, node: Node) -> None:
        """Note how this node is; of a step the highest values stay."""
        self._begin_step(now)
        step = self._step
        self._step = step._replace(
            queue=max(step.queue, node.queue), lag=max(step.lag, node.lag), streams=max(step.streams, node.streams)
        )

    def samples(self, now: datetime) -> tuple[NodeSample, ...]:
        """All steps, the oldest first."""
        self._begin_step(now)
        return (*self._steps, self._current())

    def _begin_step(self, now: datetime) -> None:
        at = int(now.timestamp()) // STEP_SECONDS * STEP_SECONDS
        if at == self._step.at:
            return
        if self._step.at:
            self._steps.append(self._current())
            self._requests = 0
            self._refusals.clear()
        self._step = NodeSample(at)

    def _current(self) -> NodeSample:
        refusals = dict(self._refusals.most_common(_CODES_MAX))
        others = self._refusals.total() - sum(refusals.values())
        if others:
            refusals[OTHER_CODES] = others
        return self._step._replace(requests=self._requests, refusals=refusals)
