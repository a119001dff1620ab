"""Temporary hooks that stop or change a forward pass of a Hugging Face model."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn
from transformers import PreTrainedModel

from didact.errors import DidactError, UnsupportedError


def first_input(module: nn.Module, run: Callable[[], object]) -> Tensor | None:
    """The input of the module when `run` first calls it, or None if it never does. Stops the pass there."""

    def stop(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        raise _Entered(args[0] if args else kwargs["hidden_states"])

    with module.register_forward_pre_hook(stop, with_kwargs=True):
        try:
            run()
        except _Entered as entered:
            return entered.hidden
    return None


class _Entered(Exception):  # noqa: N818 - carries a value out of a forward pass, and is no error
    def __init__(self, hidden: Tensor) -> None:
        super().__init__()
        self.hidden = hidden


def unsupported_model_error(name: str, model: PreTrainedModel, fault: str) -> UnsupportedError:
    """The error for a model that didact can only treat as a black box, with advice."""
    return UnsupportedError(
        f"Model {name!r} ({model.config.model_type}) cannot be a white box: {fault}. Wrap its predictions instead: "
        "didact.teacher_from_function(…)."
    )


@contextmanager
def errors_as_unsupported(name: str, model: PreTrainedModel) -> Iterator[None]:
    """Turn any error that the model raises on a short row into an `UnsupportedError` that quotes it."""
    try:
        yield
    except DidactError:
        raise
    except Exception as error:
        first_line = str(error).strip().partition("\n")[0].rstrip(".")
        raise unsupported_model_error(
            name, model, f"on a short row it raises {type(error).__name__}: {first_line}"
        ) from error


@contextmanager
def replaced_input(module: nn.Module, hidden: Tensor) -> Iterator[None]:
    """Replace the input of the module by `hidden` in its first call."""
    calls = 0

    def swap(
        _: nn.Module, args: tuple[Any, ...], kwargs: dict[str, object]
    ) -> tuple[tuple[Any, ...], dict[str, object]]:
        nonlocal calls
        calls += 1
        if calls > 1:  # ALBERT calls one module for several layers
            return args, kwargs
        return ((hidden, *args[1:]), kwargs) if args else (args, kwargs | {"hidden_states": hidden})

    with module.register_forward_pre_hook(swap, with_kwargs=True):
        yield


@contextmanager
def replaced_output(module: nn.Module, output: Tensor) -> Iterator[None]:
    """Replace the tensor that the module returns by `output`. Other return values stay."""

    def swap(_: nn.Module, __: Any, computed: Any) -> Any:
        return (output, *computed[1:]) if isinstance(computed, tuple) else output

    with module.register_forward_hook(swap):
        yield


def first_output(output: Any) -> Any:
    """The first of several return values. Some embeddings also return a grid size or a quantisation scale."""
    return output[0] if isinstance(output, tuple) else output
