"""Write src/parley/surfaces/http/examples.json: a request and its answer for every operation, from the golden stories.

gen_examples.py            write the file if it is stale
gen_examples.py --check    write nothing; exit 1 when it is stale
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # this is a script: nobody else has put the modules beside it within reach

from parley.surfaces.http.route import Route  # noqa: E402
from parley.surfaces.http.server import all_routes  # noqa: E402
from tests.golden.stories import filled, load, names, saved_values  # noqa: E402

FILE = ROOT / "src" / "parley" / "surfaces" / "http" / "examples.json"
# An answer that fits a page; a list shows its first entries.
_LONGEST = 2_000
_ENTRIES = 2
_SHOWN_HEADERS = ("If-Match", "X-Agent-ID")
_PARTS = ("method", "path", "headers", "body", "status", "answer")

Example = dict[str, Any]


def main(arguments: list[str]) -> int:
    text = json.dumps(examples(), indent=1, ensure_ascii=False) + "\n"
    fresh = FILE.exists() and FILE.read_text(encoding="utf-8") == text
    if arguments == ["--check"]:
        if not fresh:
            print(f"{FILE.name} is stale; run: make docs", file=sys.stderr)
        return 0 if fresh else 1
    if not fresh:
        FILE.write_text(text, encoding="utf-8")
        print(f"wrote {FILE.name}")
    return 0


def examples() -> dict[str, Example]:
    """By operation, such as `POST /api/v1/intents`: the shortest recorded call that shows what one sends and gets."""
    patterns = [(_pattern(route), route) for route in all_routes()]
    found: dict[str, Example] = {}
    for example in _calls():
        bare = example["path"].partition("?")[0]
        for pattern, route in patterns:
            if example["method"] == route.method and pattern.fullmatch(bare) and example["status"] in route.answers:
                name = f"{route.method} {whole_path(route)}"
                if name not in found or _rank(example, route) < _rank(found[name], route):
                    found[name] = example
                break
    return {name: {part: found[name][part] for part in _PARTS if part in found[name]} for name in sorted(found)}


def whole_path(route: Route) -> str:
    return route.path if route.bare else "/api/v1" + route.path


def _pattern(route: Route) -> re.Pattern[str]:
    return re.compile(re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(whole_path(route))))


def _rank(example: Example, route: Route) -> tuple[int, ...]:
    """What makes one example better than an earlier one: it is from the story of its kind, says something, and fits."""
    answer = example.get("answer")
    return (
        not str(example).isascii(),
        '" "' in json.dumps(example.get("body")),  # a blank text shows nothing
        len(json.dumps(answer)) > _LONGEST,
        example["status"] != next(iter(route.answers)),
        answer in ([], {}, None),
        route.body is not None and not example.get("body"),
        example["story"] != route.tag,
        "?" in example["path"] and route.method != "GET",
        len(json.dumps(example.get("body"))),
    )


def _calls() -> Iterator[Example]:
    for story_name in names("http"):
        variables: dict[str, str] = {}
        for step in load("http", story_name)["steps"]:
            answer = step["answer"]
            request = filled(step["request"], variables)
            if "save" in step:
                variables.update(saved_values(step, answer.get("json")))
            if "text" not in request:
                yield {"story": story_name, **_example(request, answer)}


def _example(request: dict[str, Any], answer: dict[str, Any]) -> Example:
    example: Example = {"method": request["method"], "path": request["path"], "status": answer["status"]}
    headers = {name: value for name, value in request.get("headers", {}).items() if name in _SHOWN_HEADERS}
    if headers:
        example["headers"] = headers
    if "json" in request:
        example["body"] = request["json"]
    for part in ("json", "text", "frames"):
        if part in answer:
            example["answer"] = _shortened(answer[part])
    return example


def _shortened(answer: Any) -> Any:  # noqa: ANN401  # any JSON
    if isinstance(answer, list):
        return [_shortened(entry) for entry in answer[:_ENTRIES]]
    if isinstance(answer, dict):
        return {name: _shortened(value) for name, value in answer.items()}
    return answer


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
