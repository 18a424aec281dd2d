"""Searching hyper-parameters: a study in a file that several processes share, with Optuna's names where they mean the same.

>>> space = {"lr": {"low": 1e-5, "high": 1e-1, "log": True}, "layers": {"type": "int", "low": 1, "high": 4}}
>>> study = ingot.tune.create_study(space, direction="minimize")
>>> study.optimize(lambda trial: train(**trial.params), n_trials=50)
>>> study.best_params

Without a space, trials say what they search as they ask for it, with conditions and loops of their own:

>>> def objective(trial):
...     layers = trial.suggest_int("layers", 1, 3)
...     return train([trial.suggest_int(f"width {i}", 16, 256, log=True) for i in range(layers)])
>>> ingot.tune.create_study().optimize(objective, n_trials=50)
"""

import json
import math
import numbers
from dataclasses import dataclass, fields
from typing import Any

from . import _core
from .display import Chart, Progress, table


class TrialPruned(Exception):
    """Raise it in an objective to end a trial that is going nowhere."""


@dataclass(frozen=True)
class FrozenTrial:
    """A trial as it stands in the study, with Optuna's names. ``trial["params"]`` is ``trial.params``, ``dict(trial)`` all.

    ``values`` are those of the objectives in their order, also of one, and ``value`` is the first; None where the trial has
    none. ``objectives``: of several, the same by their names.
    """

    number: int
    state: str
    params: dict[str, Any]
    value: float | None
    values: list[float] | None
    objectives: dict[str, float]
    intermediate_values: dict[int, float]
    note: str

    @classmethod
    def _of(cls, row):
        objectives = row.get("values", {})
        values = list(objectives.values()) or (None if row["value"] is None else [row["value"]])
        return cls(**{**row, "values": values, "objectives": objectives})

    def __getitem__(self, name):
        if name not in self.keys():
            raise KeyError(f"a trial has no '{name}'; there are: {', '.join(self.keys())}")
        return getattr(self, name)

    def __iter__(self):
        return iter(self.keys())

    def keys(self) -> list[str]:
        """The names of what it has."""
        return [field.name for field in fields(self)]

    def get(self, name: str, default: Any = None) -> Any:
        """What it has of a name, or the default."""
        return self[name] if name in self.keys() else default


def _plain(value):
    """A number of NumPy as JSON has it."""
    if hasattr(value, "item"):
        return value.item()
    raise TypeError(f"{value!r} is a {type(value).__name__}, which a study cannot keep; use numbers, texts, booleans and None")


def _number(where, kind, value):
    """A bound or a step, of whichever type, as a finite int or float."""
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    except (TypeError, ValueError):
        raise TypeError(f"{where} is {value!r}; it has to be a number") from None
    if not math.isfinite(number):
        raise ValueError(f"{where} is {value!r}; it has to be finite")
    if kind == "float":
        return number
    whole = int(value)
    if whole != value:
        raise ValueError(f"{where} is {value!r}; it has to be a whole number")
    return whole


def _row(name, kind, asked):
    """What a trial asks of a parameter, as a study's space writes it."""
    if kind == "choice":
        for choice in asked["choices"]:
            if isinstance(choice, numbers.Real) and not math.isfinite(choice):
                raise ValueError(f"suggest of '{name}': a choice is {choice!r}; it has to be finite")
        return {"choices": asked["choices"]}
    row = {key: _number(f"suggest of '{name}': {key}", kind, asked[key]) for key in ("low", "high", "step") if asked[key] is not None}
    return {"type": kind, **row, **({} if asked["log"] is None else {"log": bool(asked["log"])})}


class Trial:
    """One try: ``params`` by name, and :meth:`report` for values on the way."""

    def __init__(self, study, trial):
        self._study, self._trial = study, trial
        self.number = trial.number
        self.params = study._tuner.params(trial)
        self._pruned = False

    def suggest_float(self, name, low=None, high=None, *, step=None, log=None):
        """The trial's value of a parameter from ``low`` to ``high``, both included. In a study with a space, a range that is not
        the space's is a ValueError, and may be left out."""
        return self._suggest(name, "float", low=low, high=high, step=step, log=log)

    def suggest_int(self, name, low=None, high=None, *, step=None, log=None):
        """As :meth:`suggest_float`, of a whole number."""
        return self._suggest(name, "int", low=low, high=high, step=step, log=log)

    def suggest_categorical(self, name, choices=None):
        """As :meth:`suggest_float`, of choices."""
        return self._suggest(name, "choice", choices=None if choices is None else list(choices))

    def _suggest(self, name, kind, **asked):
        if self._study._space is None:
            return self._ask(name, kind, asked)
        if name not in self.params:
            raise KeyError(f"'{name}' is not in the study's space for this trial; there are: {', '.join(self.params)}")
        space = self._study._space[name]
        for key, wanted in asked.items():
            has = space.get(key, {"log": False, "step": 1 if space.get("type") == "int" else None}.get(key))
            if wanted is not None and wanted != has:
                raise ValueError(f"suggest of '{name}': {key} is {wanted!r} here and {has!r} in the study's space; change one of them")
        return self.params[name]

    def _ask(self, name, kind, asked):
        needed = ["choices"] if kind == "choice" else ["low", "high"]
        if any(asked[key] is None for key in needed):
            raise TypeError(f"suggest of '{name}': the study was made without a space; say {' and '.join(needed)}")
        self._study._tuner.choose(self._trial, name, json.dumps(_row(name, kind, asked), default=_plain))
        self.params = self._study._tuner.params(self._trial)
        return self.params[name]

    def report(self, value, step):
        """An intermediate value, at a step that grows."""
        self._pruned = self._study._tuner.report(self._trial, step, value)

    def should_prune(self):
        """Whether the pruner has ended the trial: raise :class:`TrialPruned` then."""
        return self._pruned

    @property
    def state(self):
        """"running", "complete", "pruned" or "failed"."""
        return self._trial.state


class Study:
    """A search. ``ask`` and ``tell``, or :meth:`optimize`."""

    def __init__(self, tuner, space, maximize=False, n_trials=0, reopen=None):
        self._tuner, self._space, self._maximize, self._wanted = tuner, space, maximize, n_trials
        self._reopen = reopen  # another connection to the study's file
        self._inherited = None  # of a forked process: the connection of its parent, which is not its own to close

    def ask(self):
        """The next trial; None where all have begun."""
        trial = self._tuner.suggest()
        return None if trial is None else Trial(self, trial)

    def tell(self, trial, value=None, state=None):
        """The value of a trial (of several objectives a sequence, in their order), or ``state="pruned"`` or ``"failed"``."""
        if state == "pruned":
            if trial.state == "running":
                self._tuner.prune(trial._trial, "told so")
        elif state == "failed" or value is None:
            self._tuner.fail(trial._trial, "told so")
        else:
            values = [value] if isinstance(value, numbers.Real) or not hasattr(value, "__iter__") else value
            self._tuner.complete(trial._trial, [float(v) for v in values])

    def optimize(self, objective, n_trials=None, catch=(), progress: bool | None = None, workers: int = 1):
        """Calls ``objective(trial)`` until the study has its trials, or ``n_trials`` of them here. An exception that is none
        of ``catch`` fails its trial and leaves. ``progress``: a bar in notebooks alone (None), on stderr too (True), nowhere
        (False). ``workers``: so many processes, forked from this one, which share the study's ``storage``; an objective opens
        its own models there, as those that are open here are not theirs."""
        with Progress(n_trials or self._wanted, "Trials", progress) as bar:
            if workers > 1:
                self._optimize_by(workers, objective, n_trials, catch, bar)
            else:
                self._optimize(objective, catch, self._counting(n_trials, bar))

    def _counting(self, n_trials, bar):
        done = -1

        def allowed():
            nonlocal done
            done += 1
            if done:
                bar.update(done, self._best_so_far())
            return n_trials is None or done < n_trials

        return allowed

    def _optimize_by(self, workers, objective, n_trials, catch, bar):
        reopen = self._reopen
        if reopen is None:
            raise ValueError(f"workers={workers}: processes share a study by its file; give create_study(storage=\"study.db\")")
        from ._workers import Workers

        def work(allowed):
            self._inherited, self._tuner = self._tuner, reopen()
            self._optimize(objective, catch, allowed)

        Workers(workers, work, n_trials).wait(lambda begun: begun and bar.update(begun, self._best_so_far()))

    def _optimize(self, objective, catch, allowed):
        while allowed():
            trial = self.ask()
            if trial is None:
                return
            try:
                value = objective(trial)
            except TrialPruned:
                self.tell(trial, state="pruned")
            except KeyboardInterrupt:
                self._tuner.put_back()
                raise
            except Exception as error:
                self._tuner.fail(trial._trial, f"{type(error).__name__}: {error}")
                if not isinstance(error, catch or ()):
                    raise
            else:
                if trial.state == "running":
                    self.tell(trial, value)

    def _best_so_far(self):
        if self._tuner.goals:
            return ""
        try:
            return f"best {self.best_value:.5g}"
        except ValueError:
            return ""

    def plot(self):
        """Each trial's value, and the best so far, over the trials: a :class:`ingot.display.Chart`. Of one objective."""
        values = [(trial["number"], trial["value"]) for trial in self.trials if trial["state"] == "complete"]
        best, so_far = [], None
        for number, value in values:
            better = so_far is None or (value > so_far if self._maximize else value < so_far)
            so_far = value if better else so_far
            best.append((number, so_far))
        return Chart({"value": values, "best": best}, "Trials", "trial")

    def _repr_html_(self):
        rows = [{"trial": t["number"], "state": t["state"], "value": t["value"], **t["params"]} for t in self.trials]
        drawn = "" if self._tuner.goals or not rows else self.plot().svg()
        return f"{drawn}{table(rows[-20:], f'{len(rows)} trials' + (', the last 20' if len(rows) > 20 else ''))}"

    @property
    def trials(self) -> list[FrozenTrial]:
        """All trials of all workers."""
        return [FrozenTrial._of(trial) for trial in self._tuner.trials()]

    @property
    def best_trials(self) -> list[FrozenTrial]:
        """Of several objectives, the Pareto front: the trials that no other is as good as in all and better than in one; of
        one, the best alone."""
        return [FrozenTrial._of(trial) for trial in self._tuner.best_trials()]

    @property
    def best_trial(self) -> FrozenTrial:
        """The complete trial with the best value."""
        if self._tuner.goals:
            raise ValueError("the study has several objectives, and no one best trial; see best_trials")
        best = self.best_trials
        if not best:
            raise ValueError("no trial is complete yet")
        return best[0]

    @property
    def best_params(self):
        """Its parameters."""
        return self.best_trial["params"]

    @property
    def best_value(self):
        """Its value."""
        return self.best_trial["value"]


def create_study(space=None, *, direction="minimize", directions=None, n_trials=100, storage="", sampler="tpe", pruner="none", seed=0, name="python"):
    """A study over ``space``, as the mapping ``space`` of ``ingot tune`` writes it. Without one, trials say what they search by
    ``suggest_float``, ``suggest_int`` and ``suggest_categorical``; each parameter is then sampled by itself.

    ``directions``: of several objectives, in place of one ``direction``: ``{"loss": "minimize", "accuracy": "maximize"}``, or
    a list of them for objectives without names. An objective function then returns a sequence of values.
    ``storage``: an SQLite file that processes share; in memory where it is not given. ``sampler``: tpe, random or grid.
    ``pruner``: none, median or asha. ``name``: what is tried; a study about something else is refused.
    """
    if directions is not None and not hasattr(directions, "items"):
        directions = {f"value {i}": way for i, way in enumerate(directions)}
    goals = json.dumps(dict(directions or {}))

    def opened():
        text = "" if space is None else json.dumps(space, default=_plain)
        return _core._make_tuner(text, direction, sampler, pruner, seed, n_trials, str(storage), name, goals)

    return Study(opened(), None if space is None else json.loads(json.dumps(space, default=_plain)), direction == "maximize", n_trials, opened if storage else None)
