"""Training and fine-tuning language models as ``ingot train`` does, step by step or to the end."""

import json
import weakref
from functools import partial
from pathlib import Path

from . import _core
from .config import TrainConfig
from .display import Chart, Progress, Report


def _yaml(config):
    """The configuration as YAML text (JSON is YAML), with a name for messages."""
    if isinstance(config, TrainConfig):
        config = config.to_dict()
    if isinstance(config, dict):
        return json.dumps(config, default=str), "config"
    return Path(config).read_text(encoding="utf-8"), str(config)


class Reporter:
    """Hears how a run goes: derive from it, and override what is of interest. ``Trainer(reporters=[...])``."""

    def begin(self, info: dict) -> None:
        """Before the first step: name, output_dir, model_type, parameters, loss_unit (what ``loss`` is measured in),
        device, first_step, total_steps."""

    def step(self, record: dict) -> None:
        """After every step: step, epoch, loss, learning_rate, grad_norm, tokens_per_second, seconds."""

    def evaluation(self, record: dict) -> None:
        """After an evaluation: step, loss, ema, best."""

    def sample(self, record: dict) -> None:
        """A text that the model wrote: step, prompt, text."""

    def event(self, record: dict) -> None:
        """What the run does about its loss (``auto_lr_reduction``, ``plateau_steps``, ``loss_watchdog_threshold``): step,
        kind, text."""

    def saved(self, checkpoint: str) -> None:
        """A checkpoint is whole: its directory. Also of a run that an exception or Ctrl-C ends."""

    def finish(self) -> None:
        """After the last step, also of a run that was stopped."""


class Trainer:
    """Trains as a configuration says: a YAML file of ``ingot train`` or axolotl, a dict of the same keys, or a :class:`TrainConfig`.

    Args:
        config: path of a YAML file, a dict, or a TrainConfig.
        resume: goes on from the newest whole checkpoint of ``output_dir``, bit for bit.
        callback: called as ``callback(event, record)`` with ``"step"`` and ``"evaluation"`` (dicts) and ``"saved"`` (a
            path). An exception in it ends the run, with a checkpoint, and leaves the call.
        reporters: :class:`ingot.Reporter` objects, which hear more; their exceptions are those of a callback.
        changes: keys over those of the file.

    >>> trainer = ingot.Trainer({"base_model": "model.gguf", "adapter": "qlora", "datasets": [...], "output_dir": "out"})
    >>> while trainer.step():
    ...     print(trainer.last["loss"])
    >>> trainer.finish()["model"]
    """

    def __init__(self, config, *, resume=False, callback=None, reporters=(), **changes):
        self.last: dict | None = None  #: the record of the last step that was reported
        self._callback = callback
        self._reporters = list(reporters)
        self._progress: Progress | None = None
        self._evaluations: list[tuple[int, float]] = []
        text, name = _yaml(config)
        over = [f"{key}={json.dumps(value, default=str)}" for key, value in changes.items()]
        on_event = weakref.WeakMethod(self._on_event)  # C++ owns the callback: no cycle through it

        def call(event, record):
            method = on_event()
            if method is not None:
                method(event, record)

        self._trainer = _core._Trainer(text, name, over, resume, call)

    def _on_event(self, event, record):
        if event == "step":
            self.last = record
            if self._progress is not None:
                self._progress.update(record["step"], f"loss {record['loss']:.4g}")
        elif event == "evaluation" and record["loss"] is not None:
            self._evaluations.append((record["step"], record["loss"]))
        hearers = [getattr(reporter, event) for reporter in self._reporters]
        if self._callback is not None and event in ("step", "evaluation", "saved"):
            hearers.insert(0, partial(self._callback, event))
        first_error = None  # ends the run, but not before all have heard
        for hear in hearers:
            try:
                hear(*(() if event == "finish" else (record,)))
            except BaseException as error:
                first_error = error if first_error is None else first_error
        if first_error is not None:
            raise first_error

    def step(self) -> bool:
        """One optimizer step, and what is due behind it; False when the run is over. On a GPU a step's record comes one
        call later."""
        return self._trainer.step()

    def finish(self) -> dict:
        """Ends a run, wherever it is: evaluation, checkpoint and model. A dict with ``model`` (its directory), losses,
        ``steps`` and ``checkpoint``."""
        return Report(self._trainer.finish())

    def train(self, progress: bool | None = None) -> dict:
        """All steps that remain, and :meth:`finish`. Ctrl-C saves a checkpoint first. ``progress``: a bar in notebooks alone
        (None), on stderr too (True), nowhere (False)."""
        with Progress(self._trainer.total_steps, "Training", progress) as self._progress:
            try:
                return Report(self._trainer.run())
            finally:
                self._progress = None

    def evaluate(self) -> float | None:
        """Mean loss on the validation data, in nats per token; None where there is none."""
        return self._trainer.evaluate()

    def save(self) -> str:
        """Writes a checkpoint now, which ``resume=True`` goes on from; its directory."""
        return self._trainer.save()

    def history(self) -> list[dict]:
        """A dict for each step so far: step, epoch, loss, learning_rate, grad_norm, tokens_per_second, seconds."""
        return self._trainer.history()

    def plot(self) -> Chart:
        """The losses so far over steps, of training and validation, in nats per token."""
        training = [(record["step"], record["loss"]) for record in self.history()]
        return Chart({"training": training, "validation": self._evaluations}, "Loss, nats per token", "step")

    def _repr_html_(self):
        return f"<b>Trainer</b> step {self.steps_done} of {self.total_steps} on {self.device}<br/>{self.plot().svg()}"

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
