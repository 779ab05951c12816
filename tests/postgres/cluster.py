"""A real PostgreSQL for tests: clusters that a test may break, and one that all tests of a run share.

    dsn = new_database()                        # of the shared cluster; drop(dsn) when done
    with a_cluster(fsync="on") as cluster:      # of one's own: stop it, kill it, give it a standby
        ...

No server outlives the processes that need it, however they end: a guard waits for the end of a pipe. Nothing here needs
an event loop, or minds one.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import itertools
import os
import random
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TypeVar

import asyncpg

from tests.postgres.programs import ServerFailed, account, as_server, environment, run
from tests.rigs.memory import roomy_folder

_T = TypeVar("_T")
Prepare = Callable[[str], None]

# Names the address of another database in which new_database() makes its own.
ELSEWHERE = "PARLEY_TEST_DSN"
# A server that needs longer than this does not come.
PATIENCE = 60.0
_LOCAL = "127.0.0.1"
# Below the ports that the system gives to clients: while a server is down, nobody's connection takes its port.
_PORTS = range(15_000, 32_000)
_BASICS = {"max_connections": "100", "shared_buffers": "32MB", "wal_keep_size": "64MB"}
# A server refuses a database that may lose what it has acknowledged. In memory it costs nothing not to be one.
_CAREFUL = {"fsync": "on", "full_page_writes": "on", "max_connections": "400", "max_wal_size": "256MB"}


class Cluster:
    """One PostgreSQL in a folder of its own. It keeps its port for as long as it lives.

    `settings` are those of postgresql.conf. They may be changed; restart() or reload() makes them count.
    """

    def __init__(self, folder: Path, settings: Mapping[str, str] | None = None, *, port: int = 0) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.settings = dict(settings or {})
        self.port = port or free_port()
        # The path of a socket may have about 100 characters.
        self.sockets = folder if len(str(folder)) < 80 else Path("/tmp")
        self._new = False
        self._guard: Guard | None = None
        self._followers: list[Cluster] = []

    def make(self, leftovers: Iterable[Path] = ()) -> None:
        """Make the folder and an empty cluster in it. What is left over goes when the folder goes."""
        self._own_folder(leftovers)
        options = ["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"]
        run([*as_server("initdb"), "--pgdata", str(self.data), *options])
        with (self.data / "postgresql.conf").open("a") as conf:
            conf.write("include 'parley.conf'\n")
        self._new = True

    def start(self) -> None:
        """Start, and return when it takes connections."""
        log = self.folder / "log"
        while True:
            self._configure()
            try:
                run([*self._pg_ctl("start"), "--log", str(log)])
            except ServerFailed as error:
                said = log.read_text() if log.exists() else ""
                if not self._new or "could not bind" not in said:
                    raise ServerFailed(f"{error}\n{said[-2000:]}") from None
                log.unlink()  # somebody was quicker
                self.port = free_port()
            else:
                break
        if self._new:
            self.ask("CREATE ROLE parley LOGIN NOSUPERUSER")
            self._new = False

    def stop(self, mode: str = "fast") -> None:
        """Stop: "smart" waits for its clients, "fast" ends them, "immediate" leaves the rest to recovery."""
        run([*self._pg_ctl("stop"), f"--mode={mode}"])

    def kill(self) -> None:
        """End it without a farewell: what it has not written to its log is lost, and it starts with a recovery."""
        self.stop("immediate")

    def restart(self, mode: str = "fast") -> None:
        self.stop(mode)
        self.start()

    def reload(self) -> None:
        """Make changed settings count, those that can change without a restart."""
        self._configure()
        run(self._pg_ctl("reload"))

    def sigkill(self) -> None:
        """Kill every process of it at once, so that none can say a word to its clients or to the disk."""
        parent = int((self.data / "postmaster.pid").read_text().split("\n", 1)[0])
        os.kill(parent, signal.SIGSTOP)  # it must not start others meanwhile
        family = [parent, *(pid for pid, (above, _) in _processes().items() if above == parent)]
        for pid in family:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        until(lambda: all(_processes().get(pid, (0, "Z"))[1].startswith("Z") for pid in family))
        # Where nobody buries the dead, the number in these files looks alive to the next postmaster.
        for lock in (self.data / "postmaster.pid", self.sockets / f".s.PGSQL.{self.port}.lock"):
            lock.unlink(missing_ok=True)

    def running(self) -> bool:
        return subprocess.run(self._pg_ctl("status"), capture_output=True, check=False, cwd="/").returncode == 0

    def end(self) -> None:
        """Stop at once, for good, with all that follow, and take the folders away."""
        for follower in self._followers:
            follower.end()
        self._followers.clear()
        if self._guard is not None:
            self._guard.release()
            self._guard = None
            until(lambda: not self.folder.exists())

    def keep(self) -> None:
        """Count this process, too, among those that the server lives for. OSError when it is too late."""
        self._guard = Guard(self.folder)

    def dsn(self, database: str = "postgres", user: str = "parley") -> str:
        return f"postgresql://{user}@{_LOCAL}:{self.port}/{database}"

    def ask(
        self, query: str, *arguments: object, database: str = "postgres", user: str = "postgres"
    ) -> list[asyncpg.Record]:
        """One statement on a connection of its own, as the superuser unless another user is named."""
        return aside(lambda: asyncio.run(_ask(self.dsn(database, user), query, arguments)))

    def create_database(self, name: str, template: str | None = None) -> str:
        """An empty database, or a copy of another, that belongs to parley; its DSN."""
        source = f' TEMPLATE "{template}"' if template else ""
        # Copying the files takes two thirds of the time of logging their pages.
        self.ask(f'CREATE DATABASE "{name}" OWNER parley{source} STRATEGY file_copy')
        return self.dsn(name)

    def drop_database(self, name: str) -> None:
        """Drop it, and end whoever still uses it."""
        self.ask(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')

    def standby(self, folder: Path | None = None, name: str = "standby") -> Cluster:
        """A second cluster that follows this one, started. From now on every commit waits until both have it."""
        other = Cluster(folder or self.folder.with_name(f"{self.folder.name}-{name}"), self.settings)
        other.settings.pop("synchronous_standby_names", None)  # once promoted it waits for nobody
        other._own_folder()
        self._followers.append(other)
        origin = f"host={_LOCAL} port={self.port} user=postgres application_name={name}"
        copy = ["--pgdata", str(other.data), "--dbname", origin, "--checkpoint=fast", "--no-sync"]
        run([*as_server("pg_basebackup"), *copy, "--write-recovery-conf"])
        other.start()
        self.settings["synchronous_standby_names"] = f'"{name}"'
        self.reload()
        until(lambda: self.ask("SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'") != [])
        return other

    def promote(self) -> None:
        """Make a standby a primary; returns when it takes writes."""
        run(self._pg_ctl("promote"))

    def _pg_ctl(self, verb: str) -> list[str]:
        wait = [] if verb in ("reload", "status") else ["--wait", "--timeout", f"{PATIENCE:.0f}"]
        return [*as_server("pg_ctl"), verb, "--pgdata", str(self.data), *wait]

    def _own_folder(self, leftovers: Iterable[Path] = ()) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        if (other := account()) is not None:
            os.chown(self.folder, other.pw_uid, other.pw_gid)
        self._guard = Guard.posted(self.folder, [*self._pg_ctl("stop"), "--mode=immediate"], leftovers)

    def _configure(self) -> None:
        places = {"port": str(self.port), "listen_addresses": _LOCAL, "unix_socket_directories": str(self.sockets)}
        lines = [f"{name} = '{value}'\n" for name, value in {**_BASICS, **places, **self.settings}.items()]
        (self.data / "parley.conf").write_text("".join(lines))


class Guard:
    """Stops a server and removes its folder once every process that holds on to it has ended or let go."""

    def __init__(self, folder: Path) -> None:
        """Hold on to one that stands. OSError when it is too late."""
        # Opening a pipe that nobody reads fails. Its reader comes to the end when the last of us is gone.
        self._held = os.open(folder / "users", os.O_WRONLY | os.O_NONBLOCK)

    @classmethod
    def posted(cls, folder: Path, stop: list[str], leftovers: Iterable[Path] = ()) -> Guard:
        """Post a new one, and hold on to it."""
        users = folder / "users"
        os.mkfifo(users)
        remove = shlex.join(["rm", "-rf", str(folder), *map(str, leftovers)])
        script = f"cat <{shlex.quote(str(users))}; {shlex.join(stop)}; {remove}"
        # A session of its own: it must not hear the Ctrl-C that ends the tests. Nobody has to wait for it.
        command = ["/bin/sh", "-c", f"({script}) </dev/null >/dev/null 2>&1 &"]
        subprocess.run(command, check=True, cwd="/", env=environment(), start_new_session=True)
        guards: list[Guard] = []

        def stands() -> bool:
            with suppress(OSError):
                guards.append(cls(folder))
            return guards != []

        until(stands)
        return guards[0]

    def release(self) -> None:
        os.close(self._held)


@contextmanager
def a_cluster(**settings: str) -> Iterator[Cluster]:
    """A running cluster of one's own. Without fsync it is in memory and fast, and outlives all but the machine."""
    with a_folder(in_memory=settings.get("fsync") == "off") as folder:
        cluster = Cluster(folder / "primary", settings)
        try:
            cluster.make()
            cluster.start()
            yield cluster
        finally:
            cluster.end()


@contextmanager
def a_folder(*, in_memory: bool = False) -> Iterator[Path]:
    """A short-named folder that the server's account can reach, which pytest's own it cannot."""
    folder = _new_folder(in_memory=in_memory)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _new_folder(*, in_memory: bool) -> Path:
    # A new database is 300 files. On a disk with many such behind it that took 20 ms to 300 ms, in memory 10 ms.
    folder = Path(tempfile.mkdtemp(prefix="parley-pg-", dir=roomy_folder() if in_memory else None))
    folder.chmod(0o755)
    return folder


# ---------------------------------------------------------------- the cluster that all tests of a run share

_shared: dict[int, Cluster] = {}
_numbers = itertools.count(1)


def shared_cluster(prepare: Prepare | None = None) -> Cluster:
    """The cluster of this run of the tests, whichever process asks first; it forgets all when the machine crashes.

    `prepare` gets the DSN of a template database, once in the run; new_database(prepare) hands out copies of it.
    """
    cluster = _shared.get(os.getpid())  # a forked child holds on for itself
    if cluster is None:
        with _locked("shared") as note:
            cluster = _shared[os.getpid()] = _join(note.read_text()) or _found(note)
    if prepare is not None:
        _template(cluster, prepare)
    return cluster


def new_database(prepare: Prepare | None = None) -> str:
    """The DSN of a fresh database in the shared cluster: empty, or as `prepare` leaves one."""
    if elsewhere := os.environ.get(ELSEWHERE):
        return _new_elsewhere(elsewhere, prepare)
    cluster = shared_cluster()
    template = _template(cluster, prepare) if prepare is not None else None
    return cluster.create_database(f"db_{os.getpid()}_{next(_numbers)}", template)


def drop(dsn: str) -> None:
    """Drop a database that new_database() made."""
    if elsewhere := os.environ.get(ELSEWHERE):
        query = f'DROP DATABASE "{dsn.rpartition("/")[2]}"'
        aside(lambda: asyncio.run(_ask(elsewhere, query, ())))
    else:
        shared_cluster().drop_database(dsn.rpartition("/")[2])


def _new_elsewhere(elsewhere: str, prepare: Prepare | None) -> str:
    """The same in another database, of whichever kind: its role may create databases."""
    name = f"db_{os.getpid()}_{next(_numbers)}"
    aside(lambda: asyncio.run(_ask(elsewhere, f'CREATE DATABASE "{name}"', ())))
    dsn = f"{elsewhere.rpartition('/')[0]}/{name}"
    if prepare is not None:
        aside(lambda: prepare(dsn))
    return dsn


def _join(note: str) -> Cluster | None:
    if not note:
        return None
    folder, port = note.rsplit(":", 1)
    cluster = Cluster(Path(folder), _CAREFUL, port=int(port))
    try:
        cluster.keep()
    except OSError:  # the last one has left it
        return None
    return cluster


def _found(note: Path) -> Cluster:
    folder = _new_folder(in_memory=True)
    cluster = Cluster(folder, _CAREFUL)
    cluster.make(leftovers=[note.parent])
    cluster.start()
    note.write_text(f"{folder}:{cluster.port}")
    return cluster


@cache
def _template_name(prepare: Prepare) -> str:
    return "template_" + hashlib.sha256(f"{prepare.__module__}.{prepare.__qualname__}".encode()).hexdigest()[:16]


_templates: set[tuple[int, str]] = set()


def _template(cluster: Cluster, prepare: Prepare) -> str:
    name = _template_name(prepare)
    if (cluster.port, name) in _templates:
        return name
    with _locked("template"):
        if not cluster.ask("SELECT 1 FROM pg_database WHERE datname = $1", name):
            unfinished = f"unfinished_{name}"
            cluster.drop_database(unfinished)
            dsn = cluster.create_database(unfinished)
            aside(lambda: prepare(dsn))
            cluster.ask(f'ALTER DATABASE "{unfinished}" RENAME TO "{name}"')
    _templates.add((cluster.port, name))
    return name


@contextmanager
def _locked(what: str) -> Iterator[Path]:
    """Only one process of this run of the tests at a time; yields a file that all of them know."""
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", f"{os.getpid()}")
    folder = Path(tempfile.gettempdir()) / f"parley-run-{run}"
    folder.mkdir(exist_ok=True)
    path = folder / what
    with path.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield path


# ---------------------------------------------------------------- small things


async def _ask(dsn: str, query: str, arguments: Iterable[object]) -> list[asyncpg.Record]:
    connection = await asyncpg.connect(dsn)
    try:
        return await connection.fetch(query, *arguments)
    finally:
        await connection.close()


def aside(act: Callable[[], _T]) -> _T:
    """Act in a thread of its own, which may have an event loop though the caller is in one; wait for it."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(act).result()


def until(holds: Callable[[], bool]) -> None:
    """Return as soon as it holds."""
    deadline = time.monotonic() + PATIENCE
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(0.005)


def free_port() -> int:
    # pytest-randomly gives every worker the same `random`.
    for port in random.SystemRandom().sample(_PORTS, 100):
        with socket.socket() as probe, suppress(OSError):
            probe.bind((_LOCAL, port))
            return port
    raise ServerFailed("no free port")


def _processes() -> dict[int, tuple[int, str]]:
    """Every process: its parent and its state."""
    listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid=,stat="], capture_output=True, text=True, check=True).stdout
    return {int(pid): (int(parent), state) for pid, parent, state in (line.split() for line in listed.splitlines())}
