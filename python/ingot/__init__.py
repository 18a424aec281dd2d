"""Ingot: train, fine-tune, run, serve and quantize models, forecast time series and learn games.

    >>> import ingot
    >>> llm = ingot.LLM("model.gguf")
    >>> llm.generate("Once upon a time", max_tokens=32).text

Tensors share memory with NumPy, PyTorch and JAX without a copy; errors are exceptions with fields
(:mod:`ingot.errors`); every long call can be interrupted with Ctrl-C.
"""

import sys as _sys
from typing import TYPE_CHECKING as _TYPE_CHECKING

from . import _core, errors

# A build of Python without the lock takes it back for a module that needs it, unless it was told not to.
if not getattr(_sys, "_is_gil_enabled", lambda: True)():
    raise ImportError(
        "ingot needs Python's global interpreter lock, and this free-threaded Python runs without it: leave out "
        "PYTHON_GIL=0 and -X gil=0, so that importing ingot turns the lock on"
    )

from ._core import *  # noqa: F401,F403 -- every operation
from ._core import (
    Tensor,
    __version__,
    bfloat16,
    bool_,
    float16,
    float32,
    float64,
    from_dlpack,
    int8,
    int16,
    int32,
    int64,
    uint8,
)
from ._tensor import (
    arange,
    asarray,
    empty,
    eye,
    enable_grad,
    linspace,
    no_grad,
    ones,
    ones_like,
    rand,
    randn,
    tensor,
    zeros,
    zeros_like,
)
from . import nn, optim  # noqa: E402
from .config import TrainConfig
from .language import LLM, Completion, Embedder, LanguageModel, Tokenizer
from .training import Reporter, Trainer
from .weights import convert, load, merge, open, quantize, save  # noqa: A004
from ._core import _load_plugins_from_env, load_plugin, loaded_plugins

if _TYPE_CHECKING:
    from . import forecast, mahjong, rl, tune

_load_plugins_from_env()

# Loaded when they are asked for: they are a sixth of the package's import time.
_LATER = ("forecast", "mahjong", "rl", "tune")


def __getattr__(name):
    if name in _LATER:
        import importlib

        return importlib.import_module(f"{__name__}.{name}")
    if name == "__all__":  # of a star import; type checkers know the names without a list
        return [each for each in __dir__() if not each.startswith("_")]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted({*globals(), *_LATER})


import os as _os  # noqa: E402

def _in_child() -> None:
    """The threads of operations do not come along into the child of a fork, and OpenMP would wait for them, however many
    the child asks for."""
    _core._keep_thread_serial()
    _core.set_num_threads(1)


_os.register_at_fork(after_in_child=_in_child)
