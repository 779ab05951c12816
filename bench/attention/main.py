"""`python -m bench attention`: how soon coding agents notice messages, what it costs, and what kills lose.

Runs the real programs with a scripted model, without a network (see tests/harness). `--quick` sends 20 messages in each
situation instead of 100; PARTS are waking, tokens, kills and processes. `--record` keeps the figures and writes
docs/explanation/attention.md from them; `--page` only writes the page. Exit code 1 when a goal is missed.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from functools import partial

from bench.attention import page, processes, record, tokens, waking
from bench.attention.record import AttentionRecord, Kills
from tests.harness.isolation import is_isolated
from tests.harness.isolation import main as run_isolated
from tests.harness.kills import handle_through_kills
from tests.harness.stage import a_stage

_KILLED = ("claude", "codex")
_SEED = 18


def main(arguments: list[str]) -> int:
    args = _parser().parse_args(arguments)
    if args.page:
        return page.write()
    if not is_isolated():
        run_isolated([sys.executable, "-m", "bench", "attention", *arguments])
    quick = args.quick or os.environ.get("PARLEY_BENCH") == "quick"
    messages = args.messages or (20 if quick else 100)
    measured = AttentionRecord(facts=record.facts())
    for part in args.parts or _PARTS:
        print(f"  {part} ...", flush=True)
        for step in _PARTS[part](messages):
            measured = record.merge(measured, step()._replace(facts=measured.facts))
            if args.record:  # at once: a run takes half an hour
                record.save(measured)
    print(f"\n{page.figures(measured)}\n\nLoad now: {os.getloadavg()[0]:.1f}")
    if args.record:
        page.write()
    missed = page.missed_goals(measured)
    print(f"goals missed: {', '.join(missed)}" if missed else "all goals met")
    return 1 if missed and not args.no_fail else 0


Steps = list[Callable[[], AttentionRecord]]


def _waking(messages: int) -> Steps:
    def step(program: str, way: str, state: str) -> AttentionRecord:
        latency = waking.measure(program, way, state, messages)
        median = f"{latency.percentile(0.5):.3f} s" if latency.seconds else "-"
        print(f"    {program}, {way}, {state}: {len(latency.seconds)} of {latency.sent}, {median}", flush=True)
        return AttentionRecord(latencies=(latency,))

    return [partial(step, *situation) for situation in waking.SITUATIONS]


def _tokens(_messages: int) -> Steps:
    def step(program: str, way: str) -> AttentionRecord:
        return AttentionRecord(messages=(tokens.measure_message(program, way),))

    steps: Steps = [partial(step, *each) for each in tokens.message_ways().items()]
    return [*steps, lambda: AttentionRecord(tools=tuple(tokens.measure_tools()))]


def _kills(messages: int) -> Steps:
    def step(program: str) -> AttentionRecord:
        with a_stage(program) as stage:
            stage.place.set_up()
            outcome = handle_through_kills(stage, messages, messages * 2 // 5, seed=_SEED)
        counts = len(outcome.lost), len(outcome.answered_twice), len(outcome.early_receipts)
        return AttentionRecord(kills=(Kills(program, outcome.sent, outcome.kills, *counts),))

    return [partial(step, program) for program in _KILLED]


def _processes(messages: int) -> Steps:
    return [lambda: AttentionRecord(processes=tuple(processes.measure(messages)))]


_PARTS: dict[str, Callable[[int], Steps]] = {
    "processes": _processes,
    "tokens": _tokens,
    "waking": _waking,
    "kills": _kills,
}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench attention", description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*_PARTS, []], metavar="PART", help=", ".join(_PARTS))
    parser.add_argument("--quick", action="store_true", help="a fifth of the messages and kills")
    parser.add_argument("--messages", type=int, default=0, metavar="N", help="messages in each situation")
    parser.add_argument("--record", action="store_true", help="keep the figures, and write the page")
    parser.add_argument("--page", action="store_true", help="write the page from what is recorded, and measure nothing")
    parser.add_argument("--no-fail", action="store_true", help="exit 0 even when a goal is missed")
    return parser
