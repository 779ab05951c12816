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
from parley.sdk.agent.handlers import returns_awaitable
from parley.sdk.agent.logs import describe_error
from parley.wire.files.document import invalid_file

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from parley.domain.workflow.plan import HandlerUse
    from parley.wire.files.document import Flaw
    from parley.wire.files.workflow import WorkflowFile

# Beside the file, for handlers that name no module.
DEFAULT_FILE = "handlers.py"


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
        if returns_awaitable(call):

            async def call_async(argument: object) -> Any:  # noqa: ANN401  # its result
                return await call(argument, agent)

            return call_async
        return lambda argument: call(argument, agent)


class _Unusable(Exception):
    """Why a function cannot be used; never leaves this module."""

    def __init__(self, code: str, detail: str) -> None:
        self.code = code
        self.detail = detail
        super().__init__(detail)


def load_functions(file: WorkflowFile, folder: str, module: str = "") -> dict[HandlerRef, Function]:
    """Every function that the file names. `WorkflowInvalid` says of each that cannot be used why, with line and key.

    A module that cannot be imported is reported once, where the file first needs it.

    `module` is where functions without a module are looked up, in place of the one that the file names. The file's
    folder is put in front of `sys.path`, and stays there: a handler may import something later.
    """
    if folder not in sys.path:
        sys.path.insert(0, folder)
    modules = _Modules(folder, module or file.plan.handlers)
    functions: dict[HandlerRef, Function] = {}
    flaws: list[Flaw] = []
    reported: set[_Unusable] = set()
    for use in handler_uses(file.plan):
        try:
            functions[use.handler] = _resolve_function(modules, use)
        except _Unusable as unusable:
            if unusable not in reported:
                flaws.append(file.flaw(use.path, unusable.code, unusable.detail))
            reported.add(unusable)
    if flaws:
        raise invalid_file(WorkflowInvalid, flaws)
    return functions


class _Modules:
    """Modules by their names, each imported once; one that failed fails again with the same error."""

    def __init__(self, folder: str, default: str) -> None:
        self._folder = folder
        self._default = default
        self._modules: dict[str, ModuleType | _Unusable] = {}

    def find(self, handler: HandlerRef) -> ModuleType:
        name = handler.module or self._default
        if name not in self._modules:
            try:
                self._modules[name] = self._import(name) if name else self._load_default()
            except _Unusable as unusable:
                self._modules[name] = unusable
        module = self._modules[name]
        if not isinstance(module, _Unusable):
            return module
        if handler.module and module.code == "unknown":
            raise _Unusable(module.code, module.detail)  # a wrong name is reported wherever it is used
        raise module

    def _import(self, name: str) -> ModuleType:
        self._check_not_hidden(name)
        try:
            module: ModuleType = _run_import(name, lambda: import_module(name))
            return module
        except ModuleNotFoundError as error:
            if error.name is not None and f"{name}.".startswith(f"{error.name}."):
                raise _Unusable("unknown", f"no module {error.name} beside the file or installed") from None
            raise _Unusable("broken", f"{name} cannot be imported: {describe_error(error)}") from None

    def _check_not_hidden(self, name: str) -> None:
        """Refuse a module that is hidden by one of the same name, imported from elsewhere."""
        top = name.partition(".")[0]
        present = sys.modules.get(top)
        spec = PathFinder.find_spec(top, [self._folder])
        if present is None or spec is None or spec.origin is None:
            return
        origin = getattr(present, "__file__", None)
        if origin is not None and os.path.realpath(origin) != os.path.realpath(spec.origin):
            raise _Unusable(
                "hidden", f"a module {top} is imported from elsewhere ({origin}): name this one differently"
            )

    def _load_default(self) -> ModuleType:
        """`handlers.py` in the file's folder, under a name that no other workflow's can have."""
        path = os.path.join(self._folder, DEFAULT_FILE)
        digest = hashlib.sha256(os.fsencode(os.path.realpath(path))).hexdigest()
        name = f"parley_handlers_{digest[:12]}"
        if not os.path.isfile(path):
            raise _Unusable("unknown", f"no {DEFAULT_FILE} beside the file, and no module is named (handlers: MODULE)")
        spec = spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None  # noqa: S101, PT018  # it ends in .py
        loader, module = spec.loader, module_from_spec(spec)
        sys.modules[name] = module  # a dataclass looks for its module there
        try:
            _run_import(DEFAULT_FILE, lambda: loader.exec_module(module))
        except ModuleNotFoundError as error:
            raise _Unusable("broken", f"{DEFAULT_FILE} cannot be imported: {describe_error(error)}") from None
        return module


def _run_import(name: str, action: Callable[[], Any]) -> Any:  # noqa: ANN401  # what it gives
    """Import user code; any error in it is reported as a flaw of the workflow."""
    try:
        return action()
    except ModuleNotFoundError:
        raise
    except (Exception, SystemExit) as error:  # noqa: BLE001  # the outermost frame around a user's code
        raise _Unusable("broken", f"{name} cannot be imported: {describe_error(error)}") from None


def _resolve_function(modules: _Modules, use: HandlerUse) -> Function:
    target: Any = modules.find(use.handler)
    path = getattr(target, "__file__", None)
    module_name = os.path.basename(path) if path and not use.handler.module else target.__name__
    for name in use.handler.function.split("."):
        if not hasattr(target, name):
            suggestion = _suggestion(name, target)
            raise _Unusable("unknown", f"{module_name} has no function {use.handler.function}{suggestion}")
        target = getattr(target, name)
    if not callable(target):
        raise _Unusable("not_callable", f"{use.handler} is {type(target).__name__}, not a function")
    return Function(str(use.handler), target, _takes_agent(target, use))


def _suggestion(name: str, module: object) -> str:
    from difflib import get_close_matches

    names = [name for name, value in vars(module).items() if callable(value) and not name.startswith("_")]
    close = get_close_matches(name, names, 1)
    return f" (did you mean {close[0]}?)" if close else ""


def _takes_agent(call: Callable[..., Any], use: HandlerUse) -> bool:
    """Whether a function wants the agent as its second argument."""
    argument = "step" if use.does_step else "message"
    try:
        parameters = list(inspect.signature(call).parameters.values())
    except (ValueError, TypeError):
        return False  # some that are written in C do not say what they take
    kinds = inspect.Parameter
    positional = [
        parameter for parameter in parameters if parameter.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)
    ]
    required = [parameter for parameter in positional if parameter.default is kinds.empty]
    keyword_only = [
        parameter
        for parameter in parameters
        if parameter.kind is kinds.KEYWORD_ONLY and parameter.default is kinds.empty
    ]
    takes_any_number = any(parameter.kind is kinds.VAR_POSITIONAL for parameter in parameters)
    if keyword_only or len(required) > 2 or not (positional or takes_any_number):
        raise _Unusable("wrong_parameters", f"{use.handler} has to take ({argument}) or ({argument}, agent)")
    return len(required) == 2 or (len(positional) > 1 and positional[1].name == "agent")
