"""Importing the helper changes the SDK, and nothing else does; it can be taken back."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop.openintent.programs import HEAD, HELPER, RFC_DATA_AGENT, running_program


def said_by(tmp_path: Path, text: str) -> list[str]:
    with running_program(tmp_path, text) as program:
        program.ended()
    return program.said


def test_without_the_import_the_sdk_is_as_it_was(tmp_path: Path) -> None:
    text = HEAD + "import parley.sdk.agent.runtime\n" + RFC_DATA_AGENT + "DataAgent.run()\n"

    assert said_by(tmp_path, text)[-1].startswith("RecursionError")


def test_uninstall_brings_the_old_methods_back(tmp_path: Path) -> None:
    text = (
        "from openintent.agents import BaseAgent, Worker\n"
        "from openintent import AsyncOpenIntentClient, OpenIntentClient\n"
        "clients = AsyncOpenIntentClient, OpenIntentClient\n"
        "before = dict(vars(BaseAgent)), dict(vars(Worker))\n"
        "import parley.compat.openintent as helper\n"
        "print([hasattr(one, 'ask_all') for one in clients])\n"
        "changed = [n for k, v in zip((BaseAgent, Worker), before) for n in v if vars(k)[n] is not v[n]]\n"
        "print(sorted(changed) == sorted(n for names in helper.REPLACED.values() for n in names))\n"
        "helper.install()\n"
        "helper.uninstall()\n"
        "print((dict(vars(BaseAgent)), dict(vars(Worker))) == before)\n"
        "print([hasattr(one, 'ask_all') for one in clients])\n"
        "helper.install()\n"
        "print(BaseAgent.run is before[0]['run'])\n"
    )

    assert said_by(tmp_path, text) == ["[True, True]", "True", "True", "[False, False]", "False"]


@pytest.mark.parametrize(
    ("version", "said"),
    [
        ("0.17.0", []),
        ("0.18.0", ["UntestedVersion: openintent 0.18.0 was not tested with Parley; tested: 0.17.0"]),
    ],
)
def test_an_unknown_version_is_warned_about(tmp_path: Path, version: str, said: list[str]) -> None:
    text = (
        "import warnings, openintent\n"
        f"openintent.__version__ = {version!r}\n"
        "with warnings.catch_warnings(record=True) as caught:\n"
        "    warnings.simplefilter('always')\n"
        f"    {HELPER}"
        "for one in caught:\n"
        "    print(f'{one.category.__name__}: {one.message}')\n"
    )

    assert said_by(tmp_path, text) == said


def test_a_version_that_lacks_what_is_replaced_is_refused_and_left_alone(tmp_path: Path) -> None:
    text = (
        "import openintent.agents\n"
        "del openintent.agents.BaseAgent.complete_intent\n"
        "run = openintent.agents.BaseAgent.run\n"
        "try:\n"
        f"    {HELPER}"
        "except ImportError as error:\n"
        "    print(error)\n"
        "print(openintent.agents.BaseAgent.run is run)\n"
    )

    assert said_by(tmp_path, text) == ["openintent 0.17.0 has no BaseAgent.complete_intent; tested: 0.17.0", "True"]


def test_without_the_sdk_it_says_what_to_install(tmp_path: Path) -> None:
    text = "import sys\nsys.modules['openintent'] = None\n" + HELPER

    assert said_by(tmp_path, text)[-1] == (
        "ImportError: parley.compat.openintent works on the openintent SDK, which is not installed: "
        "pip install 'agent-parley[openintent]'"
    )
