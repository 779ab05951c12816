"""The stand-in for `typing`: named tuples as `typing` makes them, and the real module for everything else."""

from __future__ import annotations

import subprocess
import sys
import typing
from typing import Any

import pytest

from parley.cli.main import LightTyping

BODY = '''
class Lease(NamedTuple):
    """Until when a message is claimed."""

    holder: str
    seconds: int = 30
    note: str = ""

    @property
    def is_long(self) -> bool:
        return self.seconds > 60

    @classmethod
    def forever(cls, holder):
        return cls(holder, 2**31)
'''


def lease_class(named_tuple: object) -> Any:  # noqa: ANN401  # a class of fields that no checker sees
    names: dict[str, Any] = {"NamedTuple": named_tuple, "__name__": "somewhere"}
    exec(BODY, names)
    return names["Lease"]


def test_a_named_tuple_is_as_typing_makes_it() -> None:
    light, real = lease_class(LightTyping.NamedTuple), lease_class(typing.NamedTuple)

    for name in ("_fields", "_field_defaults", "__doc__", "__module__", "__qualname__", "__match_args__", "__slots__"):
        assert getattr(light, name) == getattr(real, name), name
    assert typing.get_type_hints(light) == typing.get_type_hints(real)
    assert light("codex", note="x") == real("codex", note="x") == ("codex", 30, "x")
    assert repr(light("codex")) == repr(real("codex"))
    assert light("codex")._replace(seconds=61).is_long
    assert light.forever("codex")._asdict() == real.forever("codex")._asdict()


@pytest.mark.parametrize("lease", [lease_class(LightTyping.NamedTuple), lease_class(typing.NamedTuple)])
def test_a_named_tuple_without_a_required_field_is_refused(lease: Any) -> None:  # noqa: ANN401
    with pytest.raises(TypeError, match="holder"):
        lease()


def test_another_name_is_of_the_real_module_and_the_stand_in_is_gone_then() -> None:
    code = (
        "import sys; from parley.cli.main import use_light_typing; use_light_typing();"
        "import typing as light; from typing import NamedTuple, TYPE_CHECKING;"
        "print(TYPE_CHECKING, hasattr(light, '__path__'), light is sys.modules['typing']);"
        "from typing import Any; import typing;"
        "print(typing is light, typing.__file__ is not None, light.Any is typing.Any is Any);"
        "print(light.Protocol is typing.Protocol)"
    )

    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert ended.stdout.splitlines() == ["False False True", "False True True", "True"]


def test_a_name_that_typing_does_not_have_is_an_import_error() -> None:
    code = "from parley.cli.main import use_light_typing; use_light_typing(); from typing import Nothing"

    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert "ImportError: cannot import name 'Nothing' from 'typing'" in ended.stderr


def test_a_program_that_has_typing_already_keeps_it() -> None:
    code = (
        "import sys, typing; from parley.cli.main import use_light_typing; use_light_typing();"
        "print(sys.modules['typing'] is typing)"
    )

    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert ended.stdout == "True\n"
