"""Make .venv hold this project, editable, and the locked versions of what it needs.

    bootstrap.py            install what runs: requirements/run.txt; returns at once when it is there
    bootstrap.py --tools    install the development tools, too: requirements/dev.txt, which includes run.txt
    ... --check             exit 0 when that is installed, 1 when not; change nothing

The stamp is written last: a .venv without one was never finished and is built again.
"""

import sys

if sys.version_info < (3, 11):  # noqa: UP036 - the line below must reach people with an older Python
    sys.exit("setup: Parley needs Python 3.11 or newer; name one with: make setup PYTHON=python3.11")

import hashlib
import os
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RUN_LOCK = ROOT / "requirements" / "run.txt"
TOOLS_LOCK = ROOT / "requirements" / "dev.txt"
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
STAMP = VENV / "parley-setup"


def main(arguments: list[str]) -> int:
    lock = TOOLS_LOCK if "--tools" in arguments else RUN_LOCK
    if is_installed(lock):
        return 0
    if "--check" in arguments:
        return 1
    import fcntl

    with RUN_LOCK.open("rb") as mutex:
        fcntl.flock(mutex, fcntl.LOCK_EX)
        return 0 if is_installed(lock) else install(lock)  # another setup may have finished meanwhile


def is_installed(lock: Path) -> bool:
    """Whether .venv holds what the lock names; the tools include what runs."""
    return stamp_on_disk() in (wanted_stamp(lock), wanted_stamp(TOOLS_LOCK))


def wanted_stamp(lock: Path = TOOLS_LOCK) -> list[str]:
    """Two lines: what the installed packages depend on, what the project's own metadata depends on."""
    interpreter = f"{sys.version} {os.path.realpath(sys.base_prefix)} {VENV}"
    return [
        hashlib.sha256(lock.read_bytes() + interpreter.encode()).hexdigest(),
        hashlib.sha256((ROOT / "pyproject.toml").read_bytes()).hexdigest(),
    ]


def stamp_on_disk() -> list[str]:
    # PYTHON.exists() follows the link: an interpreter that was removed leaves it dangling.
    try:
        return STAMP.read_text().split() if PYTHON.exists() else []
    except OSError:
        return []


def install(lock: Path) -> int:
    if VENV.is_symlink():  # `venv --clear` follows the link and empties the folder behind it
        target = os.readlink(VENV)
        print(f"setup: .venv is a link to {target}; remove it (rm .venv) and run make again", file=sys.stderr)
        return 1
    packages = stamp_on_disk()[:1]
    if packages == wanted_stamp(TOOLS_LOCK)[:1]:
        lock = TOOLS_LOCK
    usable = packages in (wanted_stamp(RUN_LOCK)[:1], wanted_stamp(TOOLS_LOCK)[:1])
    STAMP.unlink(missing_ok=True)
    if lock == TOOLS_LOCK and packages != wanted_stamp(lock)[:1]:
        print("setup: installing the development tools into .venv; this takes a minute or two", flush=True)
    elif not usable:
        print(f"setup: building .venv with Python {sys.version.split()[0]}", flush=True)
    pip = working_pip() if usable else make_venv()
    if pip is None:
        print(f"setup: Python cannot make a virtual environment; {how_to_get_venv()}", file=sys.stderr)
        return 1
    steps = [
        # A lock names everything that is needed, and leaves out what is not.
        ["--no-deps", "--require-hashes", "--requirement", str(lock)],
        ["--no-deps", "--no-build-isolation", "--editable", str(ROOT)],
    ]
    for step in steps:
        if not succeeds([*pip, "install", "-qq", *step]):
            print("setup: pip failed, see above; run make again", file=sys.stderr)
            return 1
    compile_sources()
    unfinished = STAMP.with_suffix(".tmp")
    unfinished.write_text("\n".join(wanted_stamp(lock)) + "\n")
    unfinished.replace(STAMP)
    print("setup: .venv is ready; the command is .venv/bin/parley", flush=True)
    return 0


def compile_sources() -> None:
    """As pip does for what it copies; otherwise the first command pays, or each one with PYTHONDONTWRITEBYTECODE."""
    succeeds([str(PYTHON), "-m", "compileall", "-q", str(ROOT / "src" / "parley")])


def make_venv() -> list[str] | None:
    """Build an empty .venv; return the pip command that installs into it, or None."""
    create = [sys.executable, "-m", "venv", "--clear"]
    if succeeds([*create, str(VENV)], quiet=True):
        return working_pip()
    # Debian without python3-venv has no ensurepip; any pip nearby can install into the bare environment.
    return working_pip() if succeeds([*create, "--without-pip", str(VENV)], quiet=True) else None


def working_pip() -> list[str] | None:
    target = ["--python", str(PYTHON)]
    for pip in ([str(PYTHON), "-m", "pip"], [sys.executable, "-m", "pip", *target], ["pip3", *target]):
        if succeeds([*pip, "--version"], quiet=True):
            return pip
    return None


def how_to_get_venv() -> str:
    """The command that adds what is missing. Setup never changes the system itself."""
    import shutil

    package = f"python{sys.version_info.major}.{sys.version_info.minor}-venv"
    if shutil.which("apt-get") is None:
        return f"install {package} or pip, and run make again"
    return f"run: {'' if os.geteuid() == 0 else 'sudo '}apt-get install {package}"


def succeeds(command: list[str], *, quiet: bool = False) -> bool:
    import subprocess

    # A caller's Python or pip preferences must not reach into .venv.
    unwanted = {"PYTHONHOME", "PYTHONPATH", "PIP_TARGET", "PIP_PREFIX", "PIP_USER", "PIP_REQUIRE_VIRTUALENV"}
    environment = {name: value for name, value in os.environ.items() if name not in unwanted}
    environment |= {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1", "PIP_USER": "0"}
    output = subprocess.DEVNULL if quiet else None
    try:
        done = subprocess.run(command, env=environment, stdout=output, stderr=output, check=False)
    except OSError:
        return False
    return done.returncode == 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
