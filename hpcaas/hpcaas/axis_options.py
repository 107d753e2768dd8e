"""One command-line option per axis, written once for all commands that take them."""

from __future__ import annotations

import functools
import inspect
from typing import Any, Callable, Optional

import typer

from .axes import AXES

AxisValues = dict[str, Optional[str]]
# Results of several machines are merged; there is nothing to choose on one.
_CHOSEN = tuple(name for name in AXES if name != "processor")


def axis_options(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the options of all axes to a command; it gets them as one argument, `values`."""

    @functools.wraps(command)
    def wrapper(**given: Any) -> None:
        command(values={name: given.pop(name) for name in _CHOSEN}, **given)

    signature = inspect.signature(command, eval_str=True)
    kept = [p for p in signature.parameters.values() if p.name != "values"]
    added = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=typer.Option(
                None, f"--{name.replace('_', '-')}", help=f"{AXES[name].meaning}; comma-separated"
            ),
            annotation=Optional[str],
        )
        for name in _CHOSEN
    ]
    wrapper.__signature__ = signature.replace(parameters=[*kept, *added])  # type: ignore
    wrapper.__annotations__ = {p.name: p.annotation for p in (*kept, *added)}
    del wrapper.__wrapped__  # typer would read the command's own signature
    return wrapper
