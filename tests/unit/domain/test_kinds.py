from importlib import import_module
from pathlib import Path

import parley.domain
from parley.domain.kinds import KINDS
from parley.domain.record import Record


def test_every_kind_of_record_is_known_by_its_name() -> None:
    # What a mailbox keeps is not in the store of a server.
    paths = [path for path in Path(parley.domain.__path__[0]).glob("*.py") if not path.stem.startswith("mail_")]
    modules = [import_module(f"parley.domain.{path.stem}") for path in paths]
    defined = {
        one.kind: one
        for module in modules
        for one in vars(module).values()
        if isinstance(one, type) and issubclass(one, Record) and one is not Record
    }

    assert defined == KINDS
    assert "" not in KINDS
