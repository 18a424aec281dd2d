"""Training and fine-tuning language models as ``ingot train`` does, step by step or to the end."""

import json
import weakref
from pathlib import Path

from . import _core
from .config import TrainConfig


def _yaml(config, changes):
    """The configuration as YAML text (JSON is YAML), with a name for messages."""
    if isinstance(config, TrainConfig):
        config = config.to_dict()
    if isinstance(config, dict):
        return json.dumps({**config, **changes}, default=str), "config"
    text, name = Path(config).read_text(encoding="utf-8"), str(config)
    if not changes:
        return text, name
    return text.rstrip() + "\n" + "".join(f"{key}: {json.dumps(value, default=str)}\n" for key, value in changes.items()), name


class Trainer:
    """Trains as a configuration says: a YAML file of ``ingot train`` or axolotl, a dict of the same keys, or a :class:`TrainConfig`.

    Args:
        config: path of a YAML file, a dict, or a TrainConfig.
        resume: goes on from the newest whole checkpoint of ``output_dir``, bit for bit.
        callback: called as ``callback(event, record)`` with ``"step"`` and ``"evaluation"`` (dicts) and ``"saved"`` (a
            path). An exception in it ends the run, with a checkpoint, and leaves the call.
        changes: keys over those of the file.

    >>> trainer = ingot.Trainer({"base_model": "model.gguf", "adapter": "qlora", "datasets": [...], "output_dir": "out"})
    >>> while trainer.step():
    ...     print(trainer.last["loss"])
    >>> trainer.finish()["model"]
    """

    def __init__(self, config, *, resume=False, callback=None, **changes):
        self.last: dict | None = None  #: the record of the last step that was reported
        self._callback = callback
        text, name = _yaml(config, changes)
        on_event = weakref.WeakMethod(self._on_event)  # C++ owns the callback: no cycle through it

        def call(event, record):
            method = on_event()
            if method is not None:
                method(event, record)

        self._trainer = _core._Trainer(text, name, resume, call)

    def _on_event(self, event, record):
        if event == "step":
            self.last = record
        if self._callback is not None:
            self._callback(event, record)

    def step(self) -> bool:
        """One optimizer step, and what is due behind it; False when the run is over. On a GPU a step's record comes one
        call later."""
        return self._trainer.step()

    def finish(self) -> dict:
        """Ends a run, wherever it is: evaluation, checkpoint and model. A dict with ``model`` (its directory), losses,
        ``steps`` and ``checkpoint``."""
        return self._trainer.finish()

    def train(self) -> dict:
        """All steps that remain, and :meth:`finish`. Ctrl-C saves a checkpoint first."""
        return self._trainer.run()

    def evaluate(self) -> float | None:
        """Mean loss on the validation data, in nats per token; None where there is none."""
        return self._trainer.evaluate()

    def history(self) -> list[dict]:
        """A dict for each step so far: step, epoch, loss, learning_rate, grad_norm, tokens_per_second, seconds."""
        return self._trainer.history()

    @property
    def model(self):
        """The :class:`LanguageModel` that is trained."""
        return self._trainer.model

    @property
    def tokenizer(self):
        """Its tokenizer."""
        return self._trainer.tokenizer

    @property
    def steps_done(self):
        """Optimizer steps done, those before a resume included."""
        return self._trainer.steps_done

    @property
    def total_steps(self):
        """Optimizer steps that the run will have."""
        return self._trainer.total_steps

    @property
    def device(self):
        """Where the model is trained."""
        return self._trainer.device

    def close(self):
        """Frees the model and lets other processes use ``output_dir``."""
        self._trainer.close()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()
