"""For information: one message file read by the plain reader and by the strict one that stands behind it."""

from __future__ import annotations

from pathlib import Path

from bench.figures import Figure
from bench.measure import calls_in_turns
from bench.workspace import READER, Bench, agent_folder, fill
from parley.domain.limits import DEFAULT_LIMITS
from parley.wire.oacp.format import OacpFormat
from parley.wire.yaml.plain import read_plain
from parley.wire.yaml.strict import read_strict


def run(bench: Bench) -> list[Figure]:
    home = bench.home("reading")
    fill(home, 1)
    (path,) = Path(agent_folder(home, READER, "inbox")).glob("*.yaml")
    content = path.read_bytes()
    text, form = content.decode(), OacpFormat()
    plain, strict, whole, heading = calls_in_turns(
        bench.repeat(10),
        200,
        lambda: read_plain(text, DEFAULT_LIMITS),
        lambda: read_strict(text, DEFAULT_LIMITS),
        lambda: form.inspect(content),
        lambda: form.heading(content),
    )
    return [
        Figure("reading", "fields of a file, plain over strict reader", "us", plain, strict),
        Figure("reading", "heading of a message", "us", heading),
        Figure("reading", "whole message, checked", "us", whole),
    ]
