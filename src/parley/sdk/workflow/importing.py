"""The functions that a workflow names: found, imported, and checked before anything runs."""

from __future__ import annotations

import hashlib
import inspect
import os
import sys
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import module_from_spec, spec_from_file_location
from typing import TYPE_CHECKING, Any, NamedTuple

from parley.domain.errors.workflow import WorkflowInvalid
from parley.domain.workflow.plan import HandlerRef, handler_uses
from parley.sdk.workflow.failures import said
from parley.wire.files.document import invalid_file

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from parley.domain.workflow.plan import HandlerUse
    from parley.wire.files.document import Flaw
    from parley.wire.files.workflow import WorkflowFile

# Beside the file, for handlers that name no module.
BESIDE = "handlers.py"


class Function(NamedTuple):
    """A function of the user's, and whether it takes the agent too."""

    name: str
    call: Callable[..., Any]
    takes_agent: bool

    def of(self, agent: object) -> Callable[[Any], Any]:
        """The function with one parameter; a coroutine function if it is one."""
        call = self.call
        if not self.takes_agent:
            return call
        if awaits(call):

            async def awaited(argument: object) -> Any:  # noqa: ANN401  # its result
                return await call(argument, agent)

            return awaited
        return lambda argument: call(argument, agent)


class _Wrong(Exception):
    """Why a function cannot be used; never leaves this module."""

    def __init__(self, code: str, detail: str) -> None:
        self.code = code
        self.detail = detail
        super().__init__(detail)


def awaits(call: Callable[..., Any]) -> bool:
    """Whether calling it gives something to be awaited."""
    function = inspect.unwrap(call)
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


def load_functions(file: WorkflowFile, folder: str, module: str = "") -> dict[HandlerRef, Function]:
    """Every function that the file names. `WorkflowInvalid` says of each that cannot be used why, with line and key.

    A module that is broken is told of once, where the file first needs it.

    `module` is where functions without a module are looked up, in place of the one that the file names. The file's
    folder is put in front of `sys.path`, and stays there: a handler may import something later.
    """
    if folder not in sys.path:
        sys.path.insert(0, folder)
    modules = _Modules(folder, module or file.plan.handlers)
    found: dict[HandlerRef, Function] = {}
    flaws: list[Flaw] = []
    told: set[_Wrong] = set()
    for use in handler_uses(file.plan):
        try:
            found[use.handler] = _function(modules, use)
        except _Wrong as wrong:
            if wrong not in told:
                flaws.append(file.flaw(use.path, wrong.code, wrong.detail))
            told.add(wrong)
    if flaws:
        raise invalid_file(WorkflowInvalid, flaws)
    return found


class _Modules:
    """Modules by their names, each imported once; one that failed fails again with the same error."""

    def __init__(self, folder: str, default: str) -> None:
        self._folder = folder
        self._default = default
        self._found: dict[str, ModuleType | _Wrong] = {}

    def find(self, handler: HandlerRef) -> ModuleType:
        name = handler.module or self._default
        if name not in self._found:
            try:
                self._found[name] = self._imported(name) if name else self._beside()
            except _Wrong as wrong:
                self._found[name] = wrong
        found = self._found[name]
        if not isinstance(found, _Wrong):
            return found
        if handler.module and found.code == "unknown":
            raise _Wrong(found.code, found.detail)  # a name to be mended wherever it stands
        raise found

    def _imported(self, name: str) -> ModuleType:
        self._check_not_hidden(name)
        try:
            module: ModuleType = _run(name, lambda: import_module(name))
            return module
        except ModuleNotFoundError as error:
            if error.name is not None and f"{name}.".startswith(f"{error.name}."):
                raise _Wrong("unknown", f"there is no module {error.name} beside the file or installed") from None
            raise _Wrong("broken", f"{name} cannot be imported: {said(error)}") from None

    def _check_not_hidden(self, name: str) -> None:
        """A module of the same name that was imported from elsewhere would be used instead: nobody means that."""
        top = name.partition(".")[0]
        present = sys.modules.get(top)
        spec = PathFinder.find_spec(top, [self._folder])
        if present is None or spec is None or spec.origin is None:
            return
        origin = getattr(present, "__file__", None)
        if origin is not None and os.path.realpath(origin) != os.path.realpath(spec.origin):
            raise _Wrong("hidden", f"a module {top} is imported from elsewhere ({origin}): name this one differently")

    def _beside(self) -> ModuleType:
        """`handlers.py` in the file's folder, under a name that no other workflow's can have."""
        path = os.path.join(self._folder, BESIDE)
        digest = hashlib.sha256(os.fsencode(os.path.realpath(path))).hexdigest()
        name = f"parley_handlers_{digest[:12]}"
        if not os.path.isfile(path):
            raise _Wrong("unknown", f"there is no {BESIDE} beside the file, and no module is named (handlers: MODULE)")
        spec = spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None  # noqa: S101, PT018  # it ends in .py
        loader, module = spec.loader, module_from_spec(spec)
        sys.modules[name] = module  # a dataclass looks for its module there
        try:
            _run(BESIDE, lambda: loader.exec_module(module))
        except ModuleNotFoundError as error:
            raise _Wrong("broken", f"{BESIDE} cannot be imported: {said(error)}") from None
        return module


def _run(name: str, imports: Callable[[], Any]) -> Any:  # noqa: ANN401  # what it gives
    """Import something that somebody else wrote; whatever goes wrong in it is theirs, and is told."""
    try:
        return imports()
    except ModuleNotFoundError:
        raise
    except (Exception, SystemExit) as error:  # noqa: BLE001  # the outermost frame around a user's code
        raise _Wrong("broken", f"{name} cannot be imported: {said(error)}") from None


def _function(modules: _Modules, use: HandlerUse) -> Function:
    found: Any = modules.find(use.handler)
    where = getattr(found, "__file__", None)
    shown = os.path.basename(where) if where and not use.handler.module else found.__name__
    for name in use.handler.function.split("."):
        if not hasattr(found, name):
            close = _close(name, found)
            raise _Wrong("unknown", f"{shown} has no function {use.handler.function}{close}")
        found = getattr(found, name)
    if not callable(found):
        raise _Wrong("not_callable", f"{use.handler} is {type(found).__name__}, not a function")
    return Function(str(use.handler), found, _takes_agent(found, use))


def _close(name: str, module: object) -> str:
    from difflib import get_close_matches

    known = [one for one, value in vars(module).items() if callable(value) and not one.startswith("_")]
    close = get_close_matches(name, known, 1)
    return f" (did you mean {close[0]}?)" if close else ""


def _takes_agent(call: Callable[..., Any], use: HandlerUse) -> bool:
    """Whether a function wants the agent as its second argument."""
    what = "step" if use.does_step else "message"
    try:
        parameters = list(inspect.signature(call).parameters.values())
    except (ValueError, TypeError):
        return False  # some that are written in C do not say what they take
    kinds = inspect.Parameter
    by_place = [one for one in parameters if one.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)]
    needed = [one for one in by_place if one.default is kinds.empty]
    named = [one for one in parameters if one.kind is kinds.KEYWORD_ONLY and one.default is kinds.empty]
    any_number = any(one.kind is kinds.VAR_POSITIONAL for one in parameters)
    if named or len(needed) > 2 or not (by_place or any_number):
        raise _Wrong("wrong_parameters", f"{use.handler} has to take ({what}) or ({what}, agent)")
    return len(needed) == 2 or (len(by_place) > 1 and by_place[1].name == "agent")
