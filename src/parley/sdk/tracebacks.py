"""Tracebacks that end where the user's code calls Parley: the frames below say nothing that the error does not say."""

from __future__ import annotations

import functools
from types import FunctionType
from typing import TYPE_CHECKING, Any, TypeVar

from parley.domain.errors.errors import ParleyError

if TYPE_CHECKING:
    from collections.abc import Callable

C = TypeVar("C", bound=type)

# Of a function's code, as `inspect` names them (CO_COROUTINE, CO_GENERATOR, CO_ASYNC_GENERATOR): importing that takes
# longer than all of this.
_AWAITS = 0x80
_YIELDS = 0x20 | 0x200


def short_tracebacks(cls: C) -> C:
    """Make the public methods of a class, and of those that it is made of, raise errors of Parley without their frames.

    Methods that yield are left as they are, and so is any other error: that would be a defect, whose frames are needed.
    """
    for part in cls.__mro__[:-1]:
        for name, method in list(vars(part).items()):
            if isinstance(method, FunctionType) and not name.startswith("_") and _can_be_shortened(method):
                setattr(part, name, _shortened(method))
    return cls


def _can_be_shortened(method: FunctionType) -> bool:
    return not method.__code__.co_flags & _YIELDS and not hasattr(method, "__wrapped__")


def _shortened(method: FunctionType) -> Callable[..., Any]:
    if method.__code__.co_flags & _AWAITS:

        @functools.wraps(method)
        async def awaited(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401  # whatever the method takes
            try:
                return await method(*args, **kwargs)
            except ParleyError as error:
                raise error.with_traceback(None)  # noqa: B904  # its cause stays

        return awaited

    @functools.wraps(method)
    def called(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401  # whatever the method takes
        try:
            return method(*args, **kwargs)
        except ParleyError as error:
            raise error.with_traceback(None)  # noqa: B904  # its cause stays

    return called
