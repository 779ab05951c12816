"""The figures of the record as tables, in docs/explanation/attention.md."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bench.attention import picture, record
from bench.attention.processes import HOOK, HOOK_WALL, MCP
from bench.attention.record import AttentionRecord, Latency
from bench.attention.tokens import PLAIN
from bench.attention.waking import IDLE, in_order
from tests.harness.waking import TERMINAL

PAGE = record.ROOT / "docs" / "explanation" / "attention.md"
PICTURE = record.ROOT / "docs" / "pictures" / "attention.svg"
_BEGIN, _END = "<!-- figures: python -m bench attention --page -->", "<!-- end of figures -->"
TITLES = {"claude": "Claude Code", "codex": "Codex CLI", "gemini": "Gemini CLI", "opencode": "OpenCode"}
IDLE_SECONDS, MESSAGE_TOKENS, LIST_TOKENS, SENT_LIST_TOKENS = 0.5, 170, 700, 1_000
WITH_GOAL = ("claude", "codex")
_PROCESS_SECONDS = {HOOK: 0.045, MCP: 0.060}
_PROCESS_NAMES = {
    HOOK: "a hook between two tools, nothing waiting: CPU",
    HOOK_WALL: "the same: elapsed time",
    MCP: "`parley mcp`: start to first answer",
}


def write() -> int:
    """Write the page and the picture from what is recorded."""
    recorded = record.load()
    PAGE.write_text(page(PAGE.read_text(), recorded))
    PICTURE.write_text(picture.draw(recorded.latencies))
    print(f"{PAGE}\n{PICTURE}")
    return 0


def page(text: str, recorded: AttentionRecord) -> str:
    """The page with these figures in place of those that it has."""
    before, _, rest = text.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    return f"{before}{_BEGIN}\n\n{figures(recorded)}\n\n{_END}{after}"


def figures(recorded: AttentionRecord) -> str:
    """All tables, each with its heading, and how many goals are met."""
    sections = [
        ("From send to the model", _latency_rows(recorded), "lllrrrrrl"),
        ("What a message costs the model", _message_rows(recorded), "lrrrrrl"),
        ("What the tools cost the model", _tool_rows(recorded), "lrrl"),
        ("What a kill loses", _kill_rows(recorded), "lrrrrrl"),
        ("What silence costs", _process_rows(recorded), "lrrrrrl"),
    ]
    tables = [f"### {title}\n\n{_markdown(rows, sides)}" for title, rows, sides in sections if len(rows) > 1]
    return "\n\n".join([*tables, _summary(recorded)])


def _summary(recorded: AttentionRecord) -> str:
    facts = dict(recorded.facts)
    programs = ", ".join(f"{title} {facts.get(name, '')}" for name, title in TITLES.items())
    verdicts = [met for _, met in goals(recorded)]
    counted = f"{sum(verdicts)} of {len(verdicts)} goals are met."
    machine = f"Parley {facts.get('parley')}, Python {facts.get('python')}, {facts.get('cores')} cores"
    return f"{programs}; {machine}. {counted if not all(verdicts) else f'All {len(verdicts)} goals are met.'}"


def goals(recorded: AttentionRecord) -> Iterator[tuple[str, bool]]:
    """Every goal by its name, and whether it is met."""
    for latency in recorded.latencies:
        if has_goal(latency):
            yield f"{latency.program} {latency.state}", _is_soon(latency)
    for message in recorded.messages:
        yield f"tokens of a message, {message.program}", message.tokens <= MESSAGE_TOKENS
    for tool in recorded.tools:
        yield f"tokens of the tools, {tool.program}", tool.tokens <= _tool_goal(tool.program)
    for kill in recorded.kills:
        yield f"kills, {kill.program}", not (kill.lost or kill.answered_twice or kill.early_receipts)
    for process in recorded.processes:
        if process.name in _PROCESS_SECONDS:
            yield process.name, process.median <= _PROCESS_SECONDS[process.name]


def missed_goals(recorded: AttentionRecord) -> list[str]:
    """The goals that are not met."""
    return [name for name, met in goals(recorded) if not met]


def has_goal(latency: Latency) -> bool:
    """Claude Code and Codex are to be told soon while they are idle; the others depend on what their model does, or on
    how their program starts a turn.
    """
    return latency.state == IDLE and latency.way == TERMINAL and latency.program in WITH_GOAL


def _is_soon(latency: Latency) -> bool:
    return len(latency.seconds) == latency.sent and latency.percentile(0.5) <= IDLE_SECONDS


def _tool_goal(program: str) -> int:
    return LIST_TOKENS if program == PLAIN else SENT_LIST_TOKENS


def _verdict(met: bool) -> str:
    return "met" if met else "missed"


Rows = list[tuple[str, ...]]


def _latency_rows(recorded: AttentionRecord) -> Rows:
    rows: Rows = [("program", "where", "the agent is", "told", "p50", "p95", "load", "goal, p50", "")]
    for latency in in_order(recorded.latencies):
        told = f"{len(latency.seconds)} of {latency.sent}"
        times = [f"{latency.percentile(share):.2f} s" if latency.seconds else "" for share in (0.5, 0.95)]
        verdict = _verdict(_is_soon(latency)) if has_goal(latency) else ""
        goal = f"<= {IDLE_SECONDS:g} s" if verdict else ""
        name = TITLES[latency.program]
        rows.append((name, latency.way, latency.state, told, *times, f"{latency.load:g}", goal, verdict))
    return rows


def _message_rows(recorded: AttentionRecord) -> Rows:
    rows: Rows = [
        ("program", "requests", "tokens of the body", "tokens beside it", "goal", "with the program's frame", "")
    ]
    for cost in recorded.messages:
        numbers = (str(cost.requests), str(cost.body), str(cost.tokens), f"<= {MESSAGE_TOKENS}", str(cost.as_sent))
        rows.append((TITLES[cost.program], *numbers, _verdict(cost.tokens <= MESSAGE_TOKENS)))
    return rows


def _tool_rows(recorded: AttentionRecord) -> Rows:
    rows: Rows = [("list", "tokens", "goal", "")]
    for cost in recorded.tools:
        name = "as Parley sends it" if cost.program == PLAIN else f"as {TITLES[cost.program]} passes it on"
        goal = _tool_goal(cost.program)
        rows.append((name, str(cost.tokens), f"<= {goal:,}", _verdict(cost.tokens <= goal)))
    return rows


def _kill_rows(recorded: AttentionRecord) -> Rows:
    rows: Rows = [("program", "messages", "kill -9", "lost", "answered twice", "receipts too early", "")]
    for kill in recorded.kills:
        numbers = (kill.sent, kill.kills, kill.lost, kill.answered_twice, kill.early_receipts)
        rows.append((TITLES[kill.program], *map(str, numbers), _verdict(not any(numbers[2:]))))
    return rows


def _process_rows(recorded: AttentionRecord) -> Rows:
    rows: Rows = [("what", "median", "best", "runs", "load", "goal", "")]
    for cost in recorded.processes:
        bound = _PROCESS_SECONDS.get(cost.name)
        goal = f"<= {bound * 1e3:g} ms" if bound else ""
        numbers = (f"{cost.median * 1e3:.1f} ms", f"{cost.least * 1e3:.1f} ms", str(cost.runs), f"{cost.load:g}", goal)
        rows.append((_PROCESS_NAMES[cost.name], *numbers, _verdict(cost.median <= bound) if bound else ""))
    return rows


def _markdown(rows: Sequence[Sequence[str]], sides: str) -> str:
    rule = ["---" if side == "l" else "---:" for side in sides]
    return "\n".join(f"| {' | '.join(row)} |" for row in (rows[0], rule, *rows[1:]))
