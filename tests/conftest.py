"""Which store a run is about."""

from __future__ import annotations

import gc
import itertools
import logging
import os
import signal
from collections.abc import Generator, Iterator

import hypothesis
import pytest

from tests.rigs import chosen_store
from tests.rigs.memory import roomy_folder
from tests.rigs.worker_order import slow_first_on_each

_finished = itertools.count(1)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--store",
        choices=chosen_store.CHOICES,
        default=chosen_store.CHOICES[0],
        help="what servers of the tests keep their messages in",
    )


@pytest.hookimpl(tryfirst=True)  # before Hypothesis loads the profile that it was told
def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--hypothesis-profile") == "dev":
        # As its profile for CI has it: that a busy machine is slow says nothing about a test.
        slow = (hypothesis.HealthCheck.too_slow,)
        hypothesis.settings.register_profile("dev", max_examples=25, deadline=None, suppress_health_check=slow)
    chosen_store.choose(config.getoption("store"))
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell has started this run in the background: processes that the tests interrupt would ignore it, too.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    folder = roomy_folder()
    if folder is not None:
        # Where pytest makes the folders of tests. What breaks disks makes disks of its own.
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(folder))


def pytest_xdist_auto_num_workers() -> int:
    """Two workers more than cores: for half of its time a test waits, for a timer or a process that it started."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return cores + 2


@pytest.fixture(autouse=True, scope="session")
def no_saved_logins(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the logins of whoever runs the tests out of them, and those of the tests out of that person's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))
        yield


@pytest.fixture
def database() -> Iterator[str]:
    """The address of a PostgreSQL database with empty tables, whatever store the run is about."""
    from tests.postgres.cluster import drop
    from tests.postgres.store import fresh_database

    dsn = fresh_database()
    yield dsn
    drop(dsn)


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    """Refuse a test that leaves Parley's loggers otherwise than it found them: the next one would see other records."""
    before = _logging_state()
    yield
    changed = {name: state for name, state in _logging_state().items() if state != before.get(name, _FRESH)}
    for name in changed:
        logger, (level, propagate, disabled, handlers) = logging.getLogger(name), before.get(name, _FRESH)
        logger.setLevel(level)
        logger.propagate, logger.disabled, logger.handlers[:] = propagate, disabled, handlers
    assert not changed, f"the test leaves loggers changed: {changed}"


_FRESH: tuple[int, bool, bool, tuple[logging.Handler, ...]] = (logging.NOTSET, True, False, ())


def _logging_state() -> dict[str, tuple[int, bool, bool, tuple[logging.Handler, ...]]]:
    """Level, propagation and handlers of Parley's loggers. To the root, pytest adds handlers of its own."""
    loggers = [logging.getLogger(name) for name in logging.root.manager.loggerDict if name.split(".")[0] == "parley"]
    state = {
        logger.name: (logger.level, logger.propagate, logger.disabled, tuple(logger.handlers)) for logger in loggers
    }
    root = logging.getLogger()
    ours = tuple([handler for handler in root.handlers if not type(handler).__module__.startswith("_pytest.")])
    return {**state, "root": (root.level, root.propagate, root.disabled, ours)}


@pytest.hookimpl(trylast=True)  # what -m leaves out has gone by then
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Modules with slow tests or faults come first on each worker, so that none is left with them at the end.

    What is about a file of SQLite has nothing to say about PostgreSQL.
    """
    if chosen_store.is_postgres():
        about_files = [item for item in items if item.get_closest_marker("sqlite_only")]
        config.hook.pytest_deselected(items=about_files)
        items[:] = [item for item in items if not item.get_closest_marker("sqlite_only")]
    slow = frozenset(item.path for item in items if any(item.iter_markers("slow")) or any(item.iter_markers("fault")))
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    items[:] = slow_first_on_each([(item.path, item) for item in items], slow, workers)


def pytest_collection_finish() -> None:
    _forget_what_stays()


def pytest_runtest_logfinish() -> None:
    if next(_finished) % 200 == 0:
        _forget_what_stays()


def _forget_what_stays() -> None:
    """Keep the garbage collector away from what outlives a test: looking through it takes a third of a second."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown() -> Generator[None, None, None]:
    """Whatever a test has started has ended by now."""
    try:
        return (yield)
    finally:
        chosen_store.end_of_test()
