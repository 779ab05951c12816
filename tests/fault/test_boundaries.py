"""A process that dies before any of its system calls, or meets an error in one: what was acknowledged is there."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

import pytest

from tests.fault.history import look
from tests.fault.stage import Boundary, Outcome, Stage, agent_folder, make_home

pytestmark = [pytest.mark.fault, pytest.mark.usefixtures("strace")]

SENDER = "claude"
READERS = ("codex", "gemini", "human")
HOUR = 3600
# How an act is broken, and what is wrong afterwards: nothing, if all is well.
Trial = Callable[[Stage, Path, str], list[str]]


class Ensemble:
    """Some stages at work beside each other, and homes to start from."""

    def __init__(self, folder: Path, mutant: str = "") -> None:
        self._folder = folder
        self._stages = [Stage(folder / f"stage{number}", mutant) for number in range(3)]
        self._count = 0

    def __enter__(self) -> Ensemble:
        return self

    def __exit__(self, *_: object) -> None:
        for stage in self._stages:
            stage.__exit__(None, None, None)

    @property
    def one(self) -> Stage:
        return self._stages[0]

    def try_all(self, trial: Trial, home: Path, injections: list[str]) -> dict[str, list[str]]:
        """What goes wrong under each injection; each starts from a copy of `home`."""
        free: SimpleQueue[Stage] = SimpleQueue()
        for stage in self._stages:
            free.put(stage)

        def attempt(injection: str) -> list[str]:
            stage = free.get()
            copy = self._folder / f"home-{injection.replace(':', '-')}"
            try:
                shutil.copytree(home, copy)
                found = trial(stage, copy, injection)
            finally:
                free.put(stage)
            shutil.rmtree(copy)
            return found

        with ThreadPoolExecutor(len(self._stages)) as pool:
            results = dict(zip(injections, pool.map(attempt, injections), strict=True))
        print(f"tried {len(injections)} injections")
        return {injection: found for injection, found in results.items() if found}


@pytest.fixture
def ensemble(tmp_path: Path) -> Iterator[Ensemble]:
    with Ensemble(tmp_path) as ensemble:
        yield ensemble


def fresh_home(tmp_path: Path) -> Path:
    """Agents that never did anything: ledgers have to be made."""
    return make_home(tmp_path / "home", (SENDER, *READERS))


def lived_in_home(tmp_path: Path, stage: Stage) -> Path:
    """Everybody has sent and finished something before."""
    home = fresh_home(tmp_path)
    for agent, other in ((SENDER, READERS[0]), (READERS[0], SENDER)):
        assert stage.act("send", home, agent, tags=["before"], to=[other]).acknowledged == ["before"]
        assert stage.act("drain", home, other).acknowledged == ["before"]
    return home


def kills(boundaries: list[Boundary], every: int = 1) -> list[str]:
    """Kill at each boundary; with `every`, at some of them, most where names and durability change."""
    telling = ("linkat", "unlinkat", "unlink", "rename", "renameat", "fsync", "fdatasync", "flock", "mkdirat", "write")
    chosen = [b for index, b in enumerate(boundaries) if b.call in telling or index % every == 0]
    return [f"{one.call}:signal=KILL:when={one.number}" for one in chosen[:: 1 if every == 1 else 2]]


def errors(boundaries: list[Boundary]) -> list[str]:
    """Let each call that can run out of space, or meet a broken disk, do so."""
    failing = {
        "fsync": ("EIO",),
        "fdatasync": ("EIO",),
        "linkat": ("ENOSPC", "EIO"),
        "write": ("ENOSPC",),
        "pwrite64": ("ENOSPC", "EIO"),
        "openat": ("ENOSPC",),
        "mkdirat": ("EIO",),
        "unlinkat": ("EIO",),
        "fchmod": ("EIO",),
        "flock": ("ENOLCK",),
    }
    return [f"{one.call}:error={error}:when={one.number}" for one in boundaries for error in failing.get(one.call, ())]


def send_trial(to: tuple[str, ...], *, use_tmpfile: bool = True) -> Trial:
    """A send that is interrupted; the next command of the sender recovers; then everybody reads."""

    def trial(stage: Stage, home: Path, injection: str) -> list[str]:
        options = {"to": list(to), "use_tmpfile": use_tmpfile}
        outcome = stage.perform("send", home, SENDER, {**options, "tags": ["victim"]}, inject=injection)
        half = [tag for agent in to for tag in look(agent_folder(home, agent)).inbox if tag != "victim"]
        recovery = stage.perform("send", home, SENDER, {**options, "tags": ["next"]})
        read = {agent: stage.act("drain", home, agent).acknowledged for agent in to}
        wrong = [*_refusals(outcome), *_check_send(home, outcome, recovery, read, stage)]
        wrong += [f"before anybody recovered there was {half}"] if half else []
        for agent in (SENDER, *to):
            mail = look(agent_folder(home, agent))
            # A name that no reader looks at may stay behind, for `doctor` to sweep, where files need one.
            strays = [name for name in mail.strays if use_tmpfile or not name.endswith(".tmp")]
            wrong += [f"{agent} is left with {mail}"] if mail.dead or mail.inbox or strays else []
        return wrong

    return trial


def _refusals(outcome: Outcome) -> list[str]:
    known = {"unavailable", "disk_full", "forbidden", "undelivered"}
    return [f"an error without a clear name: {line}" for line in outcome.errors if line not in known]


def _check_send(
    home: Path, outcome: Outcome, recovery: Outcome, read: dict[str, list[str]], stage: Stage
) -> Iterator[str]:
    sender = look(agent_folder(home, SENDER))
    having = [agent for agent, tags in read.items() if "victim" in tags]
    if outcome.acknowledged and len(having) < len(read):
        yield f"acknowledged, and only {having} have it"
    if 0 < len(having) < len(read):
        yield f"only {having} have it"
    if sender.outbox.count("victim") != bool(having):
        yield f"{having} have it, and {sender.outbox.count('victim')} copies are in the outbox"
    if recovery.said != ["ok next"]:
        yield f"the next command said {recovery.said}"
    if pending := stage.act("pending", home, SENDER).said:
        yield f"unfinished: {pending}"
    for agent, tags in read.items():
        if sorted(tags) != (["next", "victim"] if having else ["next"]):
            yield f"{agent} was handed {tags}"


def refused_trial() -> Trial:
    """A broadcast to one inbox that is full and two that are not, interrupted; the sender's next command recovers."""

    def trial(stage: Stage, home: Path, injection: str) -> list[str]:
        options = {"to": list(READERS), "tags": ["victim"], "settings": {"inbox_messages": "1"}}
        outcome = stage.perform("send", home, SENDER, options, inject=injection)
        recovery = stage.perform("drain", home, SENDER, {"settings": {"inbox_messages": "1"}})
        read = {agent: stage.act("drain", home, agent).acknowledged for agent in READERS}
        copies = look(agent_folder(home, SENDER)).outbox.count("victim")
        wrong = _refusals(outcome)
        having = [agent for agent, tags in read.items() if tags.count("victim") == 1]
        if having not in ([], list(READERS[1:])) or read[READERS[0]] != ["filler"]:
            wrong.append(f"everybody read: {read}")
        if outcome.acknowledged or (outcome.errors and not having):
            wrong.append(f"{outcome.said}, and {having} have it")
        if copies != bool(having) or recovery.said or stage.act("pending", home, SENDER).said:
            wrong.append(f"{copies} copies in the outbox, {recovery.said} was said")
        return wrong

    return trial


def recovery_trial() -> Trial:
    """A recovery that is interrupted itself, and the one after that."""

    def trial(stage: Stage, home: Path, injection: str) -> list[str]:
        stage.act("drain", home, SENDER, inject=injection)
        again = stage.act("send", home, SENDER, tags=["next"], to=list(READERS))
        read = {agent: stage.act("drain", home, agent).acknowledged for agent in READERS}
        copies = look(agent_folder(home, SENDER)).outbox.count("victim")
        wrong = [f"{agent} was handed {tags}" for agent, tags in read.items() if sorted(tags) != ["next", "victim"]]
        if copies != 1 or again.said != ["ok next"] or stage.act("pending", home, SENDER).said:
            wrong.append(f"{copies} copies in the outbox, {again.said} was said")
        return wrong

    return trial


def claim_trial(lease: int | None) -> Trial:
    """A `next` that is interrupted; then another reader comes: at once, and when every lease is over."""

    def trial(stage: Stage, home: Path, injection: str) -> list[str]:
        outcome = stage.act("claim", home, READERS[0], inject=injection, lease=lease)
        at_once = stage.act("drain", home, READERS[0]).acknowledged
        later = stage.act("drain", home, READERS[0], later=2 * HOUR).acknowledged
        mail = look(agent_folder(home, READERS[0]))
        found = _refusals(outcome)
        if sorted(at_once + later) != ["first", "second"]:
            found.append(f"handed out: {at_once} at once, {later} later")
        if lease is None and later:
            found.append(f"the claim of a dead process lived on: {later}")
        if lease and set(outcome.acknowledged) & set(at_once):
            found.append(f"{outcome.acknowledged} was handed out within its lease")
        if sorted(mail.archive) != ["before", "first", "second"] or mail.dead or mail.inbox or mail.strays:
            found.append(f"left with {mail}")
        return found

    return trial


def done_trial(lease: int | None, *, delete: bool) -> Trial:
    """A `done` that is interrupted; then another reader comes, when every lease is over."""

    def trial(stage: Stage, home: Path, injection: str) -> list[str]:
        outcome = stage.act("done", home, READERS[0], inject=injection, lease=lease, delete=delete)
        read = stage.act("drain", home, READERS[0], later=2 * HOUR).acknowledged
        mail = look(agent_folder(home, READERS[0]))
        found = _refusals(outcome)
        if read not in (["second"], ["first", "second"]):
            found.append(f"handed out: {read}")
        if outcome.acknowledged and read != ["second"]:
            found.append(f"done, and handed out again: {read}")
        archived = ["before", *(["first"] if "first" in read or not delete else []), "second"]
        if sorted(mail.archive) != archived or mail.dead or mail.inbox or mail.strays:
            found.append(f"left with {mail}")
        return found

    return trial


def inbox_with_two(tmp_path: Path, stage: Stage) -> Path:
    """`first` is the one that a reader is handed first."""
    home = lived_in_home(tmp_path, stage)
    stage.act("send", home, SENDER, tags=["second", "first"], urgent="first", to=[READERS[0]])
    return home


def traced(ensemble: Ensemble, home: Path, act: str, agent: str, **options: object) -> list[Boundary]:
    """The system calls of an act that nobody disturbs."""
    copy = home.with_name("home-undisturbed")
    shutil.copytree(home, copy)
    outcome = ensemble.one.perform(act, copy, agent, options, inject="")
    shutil.rmtree(copy)
    assert outcome.status == 0
    return outcome.boundaries


def test_a_send_that_dies_at_any_system_call_is_carried_whole_or_not_at_all(tmp_path: Path, ensemble: Ensemble) -> None:
    home = lived_in_home(tmp_path, ensemble.one)
    boundaries = traced(ensemble, home, "send", SENDER, tags=["victim"], to=[READERS[0]])

    wrong = ensemble.try_all(send_trial(READERS[:1]), home, kills(boundaries))

    assert len(boundaries) > 50
    assert wrong == {}


def test_the_first_send_of_an_agent_may_die_while_it_makes_the_ledger(
    tmp_path: Path, ensemble: Ensemble, full: bool
) -> None:
    home = fresh_home(tmp_path)
    boundaries = traced(ensemble, home, "send", SENDER, tags=["victim"], to=[READERS[0]])

    wrong = ensemble.try_all(send_trial(READERS[:1]), home, kills(boundaries, 1 if full else 12))

    assert wrong == {}


def test_a_broadcast_that_dies_at_any_system_call_reaches_everyone_or_no_one(
    tmp_path: Path, ensemble: Ensemble, full: bool
) -> None:
    home = lived_in_home(tmp_path, ensemble.one)
    boundaries = traced(ensemble, home, "send", SENDER, tags=["victim"], to=list(READERS))

    wrong = ensemble.try_all(send_trial(READERS), home, kills(boundaries, 1 if full else 12))

    assert wrong == {}


def test_a_send_without_unnamed_files_may_die_at_any_system_call(
    tmp_path: Path, ensemble: Ensemble, full: bool
) -> None:
    """Where O_TMPFILE is missing a file has two names for a moment; a reader finishes what a dead sender left."""
    home = lived_in_home(tmp_path, ensemble.one)
    boundaries = traced(ensemble, home, "send", SENDER, tags=["victim"], to=list(READERS[:2]), use_tmpfile=False)

    wrong = ensemble.try_all(send_trial(READERS[:2], use_tmpfile=False), home, kills(boundaries, 1 if full else 12))

    assert {"linkat", "unlinkat"} <= {one.call for one in boundaries}
    assert wrong == {}


def test_a_broadcast_that_one_inbox_refuses_may_die_at_any_system_call(
    tmp_path: Path, ensemble: Ensemble, full: bool
) -> None:
    """The others have it once, or no one has it; who refused it never gets it."""
    home = lived_in_home(tmp_path, ensemble.one)
    ensemble.one.act("send", home, SENDER, tags=["filler"], to=[READERS[0]])
    settings = {"inbox_messages": "1"}
    options = {"tags": ["victim"], "to": list(READERS), "settings": settings}
    boundaries = traced(ensemble, home, "send", SENDER, **options)

    wrong = ensemble.try_all(refused_trial(), home, kills(boundaries, 1 if full else 40))

    assert wrong == {}


def test_a_recovery_may_die_at_any_system_call(tmp_path: Path, ensemble: Ensemble, full: bool) -> None:
    """The first recipient has it when the sender dies; whoever recovers dies too, and the next one finishes."""
    home = lived_in_home(tmp_path, ensemble.one)
    kill = "linkat:signal=KILL:when=2"
    assert ensemble.one.act("send", home, SENDER, inject=kill, tags=["victim"], to=list(READERS)).killed
    boundaries = traced(ensemble, home, "drain", SENDER)

    wrong = ensemble.try_all(recovery_trial(), home, kills(boundaries, 1 if full else 40))

    assert "linkat" in {one.call for one in boundaries}
    assert wrong == {}


@pytest.mark.parametrize("delete", [False, True], ids=["archive", "delete"])
def test_what_was_read_before_its_sender_recovered_is_not_handed_out_again(
    tmp_path: Path, stage: Stage, delete: bool
) -> None:
    """The sender dies before its outbox copy, so its next command delivers again; the reader's ledger knows better."""
    home = lived_in_home(tmp_path, stage)
    kill = "linkat:signal=KILL:when=2"
    assert stage.act("send", home, SENDER, inject=kill, tags=["victim"], to=[READERS[0]]).killed
    assert stage.act("done", home, READERS[0], delete=delete).acknowledged == ["victim"]

    assert stage.act("drain", home, SENDER).said == []

    assert len(look(agent_folder(home, READERS[0])).inbox) == 1
    assert stage.act("drain", home, READERS[0]).said == []
    mail = look(agent_folder(home, READERS[0]))
    assert (mail.inbox, mail.dead, sorted(mail.archive)) == ([], [], ["before", "victim"])


@pytest.mark.parametrize("lease", [None, HOUR], ids=["bound to the process", "leased"])
def test_a_claim_that_dies_at_any_system_call_returns_the_message_once(
    tmp_path: Path, ensemble: Ensemble, lease: int | None, full: bool
) -> None:
    home = inbox_with_two(tmp_path, ensemble.one)
    boundaries = traced(ensemble, home, "claim", READERS[0], lease=lease)

    wrong = ensemble.try_all(claim_trial(lease), home, kills(boundaries, 1 if full else 12))

    assert wrong == {}


@pytest.mark.parametrize("delete", [False, True], ids=["archive", "delete"])
@pytest.mark.parametrize("lease", [None, HOUR], ids=["bound to the process", "leased"])
def test_a_done_that_dies_at_any_system_call_is_never_undone(
    tmp_path: Path, ensemble: Ensemble, lease: int | None, delete: bool, full: bool
) -> None:
    home = inbox_with_two(tmp_path, ensemble.one)
    boundaries = traced(ensemble, home, "done", READERS[0], lease=lease, delete=delete)

    wrong = ensemble.try_all(
        done_trial(lease, delete=delete), home, kills(boundaries, 1 if full or not (lease or delete) else 12)
    )

    assert wrong == {}


def test_an_error_in_any_system_call_of_a_send_is_told_and_loses_nothing(
    tmp_path: Path, ensemble: Ensemble, full: bool
) -> None:
    home = lived_in_home(tmp_path, ensemble.one)
    to = READERS if full else READERS[:1]
    boundaries = traced(ensemble, home, "send", SENDER, tags=["victim"], to=list(to))

    wrong = ensemble.try_all(send_trial(to), home, errors(boundaries)[:: 1 if full else 3])

    assert wrong == {}


def test_an_error_in_any_system_call_of_a_claim_is_told_and_loses_nothing(
    tmp_path: Path, ensemble: Ensemble, full: bool
) -> None:
    home = inbox_with_two(tmp_path, ensemble.one)
    boundaries = traced(ensemble, home, "claim", READERS[0])

    wrong = ensemble.try_all(claim_trial(None), home, errors(boundaries)[:: 1 if full else 3])

    assert wrong == {}


@pytest.mark.parametrize("delete", [False, True], ids=["archive", "delete"])
def test_an_error_in_any_system_call_of_a_done_is_told_and_loses_nothing(
    tmp_path: Path, ensemble: Ensemble, delete: bool, full: bool
) -> None:
    home = inbox_with_two(tmp_path, ensemble.one)
    boundaries = traced(ensemble, home, "done", READERS[0], delete=delete)

    wrong = ensemble.try_all(done_trial(None, delete=delete), home, errors(boundaries)[:: 1 if full else 3])

    assert wrong == {}


def test_the_mutant_that_marks_before_it_delivers_is_caught(tmp_path: Path) -> None:
    """It dies between the first and the second recipient, and nothing is left that says so."""
    with Ensemble(tmp_path, "mark_before_delivery") as ensemble:
        home = lived_in_home(tmp_path, ensemble.one)

        wrong = ensemble.try_all(send_trial(READERS), home, ["linkat:signal=KILL:when=2"])

    assert any("only" in found for all_found in wrong.values() for found in all_found)


def test_the_mutant_that_acknowledges_before_the_commit_is_caught(tmp_path: Path) -> None:
    with Ensemble(tmp_path, "acknowledge_before_commit") as ensemble:
        home = lived_in_home(tmp_path, ensemble.one)

        wrong = ensemble.try_all(send_trial(READERS[:1]), home, ["flock:signal=KILL:when=1"])

    assert any("acknowledged" in found for all_found in wrong.values() for found in all_found)
