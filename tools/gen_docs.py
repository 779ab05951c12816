"""Write the reference pages that the code knows best: docs/reference/*.md except audit-entry, file-format and json.

gen_docs.py            write every page that is stale
gen_docs.py --check    write nothing; exit 1 and name the stale pages when there are any

Each page has its module in tools/reference/.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # this is a script: nobody else has put the modules beside it within reach

from tools.reference.cli import cli_page  # noqa: E402
from tools.reference.errors import errors_page, exits_page  # noqa: E402
from tools.reference.http import http_page  # noqa: E402
from tools.reference.kinds import kinds_page  # noqa: E402
from tools.reference.policy import policy_page  # noqa: E402
from tools.reference.python import python_page  # noqa: E402
from tools.reference.settings import settings_page  # noqa: E402
from tools.reference.workflow import workflow_page  # noqa: E402

REFERENCE = ROOT / "docs" / "reference"
MARK = "<!-- Written by tools/gen_docs.py from the code. Change the code, then run: make docs -->"


def main(arguments: list[str]) -> int:
    written = pages()
    stale = [name for name, text in written.items() if not is_fresh(name, text)]
    if arguments == ["--check"]:
        for name in stale:
            print(f"docs/reference/{name} is stale; run: make docs", file=sys.stderr)
        return 1 if stale else 0
    if arguments:
        print(__doc__, file=sys.stderr)
        return 2
    for name in stale:
        (REFERENCE / name).write_text(written[name], encoding="utf-8")
        print(f"wrote docs/reference/{name}")
    return 0


def is_fresh(name: str, text: str) -> bool:
    path = REFERENCE / name
    return path.exists() and path.read_text(encoding="utf-8") == text


def pages() -> dict[str, str]:
    """Every generated page by its name."""
    makers: dict[str, Callable[[], Iterable[str]]] = {
        "cli.md": cli_page,
        "exit-codes.md": exits_page,
        "errors.md": errors_page,
        "http.md": http_page,
        "kinds.md": kinds_page,
        "policy.md": policy_page,
        "settings.md": settings_page,
        "python.md": python_page,
        "workflow.md": workflow_page,
    }
    return {name: "\n".join([MARK, "", *maker()]) + "\n" for name, maker in makers.items()}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
