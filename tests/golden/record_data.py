"""Write `data/`: what this version of Parley leaves on disk and in a database."""

from __future__ import annotations

import asyncio
import gc
import sqlite3
import subprocess
import tempfile
from contextlib import closing
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tests.golden import command_replay, http_replay, stories
from tests.golden.data_files import DATA, STORIES, pack, write_known
from tests.golden.servers import OPERATOR_KEY, a_server
from tests.postgres.cluster import drop, new_database, shared_cluster
from tests.surface.cli.team_stage import Server
from tests.surface.stage import a_home, parley_script

# The key that servers of the tests sign with.
_SIGNING_KEY = b"\x01" * 32


def record_data() -> None:
    """Write everything again."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        server = _record_server(folder)
        _record_database(folder / "server")
        workspace = _record_workspace(folder)
    write_known(server=server, workspace=workspace)


def _record_server(folder: Path) -> dict[str, str]:
    data, filling = folder / "server", folder / "filling"
    filling.mkdir()
    _make_directory(data)
    variables = asyncio.run(_fill(filling))
    store = filling / "team.db"
    _into_one_file(store)
    store.rename(data / "parley.db")
    pack("server", data)
    (DATA / "audit.pub").write_bytes((data / "audit.pub").read_bytes())
    return variables


def _make_directory(data: Path) -> None:
    """What a server makes at its first start, but for the store."""
    data.mkdir(mode=0o700)
    key = Ed25519PrivateKey.from_private_bytes(_SIGNING_KEY)
    (data / "audit.key").touch(mode=0o600)
    (data / "audit.key").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    Server(data).start().stop()
    for path in (*data.glob("parley.db*"), *data.glob("checkpoints/*")):
        path.unlink()


async def _fill(folder: Path) -> dict[str, str]:
    variables = {"admin": OPERATOR_KEY}
    story = stories.load(STORIES, "server_filling")
    async with a_server(folder) as server:
        answers = await http_replay.replay_on(server, story, variables)
        admin = server.with_key(OPERATOR_KEY)
        (DATA / "audit.jsonl").write_bytes((await admin.get("/audit/export")).body)
        (DATA / "proof.json").write_bytes((await admin.get("/audit/proof/3")).body)
    stories.save_answers(STORIES, "server_filling", answers)
    return variables


def _record_database(data: Path) -> None:
    """The same in PostgreSQL, as statements that any client can run."""
    dsn = new_database()
    subprocess.run([parley_script(), "store", "copy", str(data), dsn], check=True)
    program = ["pg_dump", "--inserts", "--no-owner", "--no-privileges", "--dbname"]
    address = shared_cluster().dsn(dsn.rpartition("/")[2], user="postgres")
    text = subprocess.run([*program, address], check=True, capture_output=True, text=True).stdout
    lines = [line for line in text.splitlines(keepends=True) if not line.startswith(("--", "\\", "SET transaction_"))]
    (DATA / "server.sql").write_text("".join(lines), encoding="utf-8")
    drop(dsn)


def _record_workspace(folder: Path) -> dict[str, str]:
    stage, home = folder / "stage", folder / "home"
    stage.mkdir()
    home.mkdir()
    variables: dict[str, str] = {}
    story = stories.load(STORIES, "workspace_filling")
    answers = command_replay.replay(story, stage, a_home(home), variables)
    stories.save_answers(STORIES, "workspace_filling", answers)
    gc.collect()  # commands leave their ledgers open
    for ledger in stage.rglob("ledger.db"):
        _into_one_file(ledger)
    (stage / "oacp-home").rename(folder / "workspace")
    pack("workspace", folder / "workspace")
    return variables


def _into_one_file(path: Path) -> None:
    """Bring what is in the journal of SQLite into the file itself."""
    with closing(sqlite3.connect(path)) as db:
        busy, *_ = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        assert not busy
    for left in ("-wal", "-shm"):
        path.with_name(path.name + left).unlink(missing_ok=True)
