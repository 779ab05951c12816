import pkgutil
from importlib import import_module

import parley.domain
from parley.domain.record import Record
from parley.domain.store.kinds import KINDS

# What a mailbox keeps is not in the store of a server.
MAILBOX_RECORDS = (
    "parley.domain.exchange.incoming",
    "parley.domain.mailbox.attention",
    "parley.domain.mailbox.wake",
)


def test_every_kind_of_record_is_known_by_its_name() -> None:
    names = [module.name for module in pkgutil.walk_packages(parley.domain.__path__, "parley.domain.")]
    modules = [import_module(name) for name in names if name not in MAILBOX_RECORDS]
    defined = {
        one.kind: one
        for module in modules
        for one in vars(module).values()
        if isinstance(one, type) and issubclass(one, Record) and one is not Record
    }

    assert defined == KINDS
    assert "" not in KINDS
