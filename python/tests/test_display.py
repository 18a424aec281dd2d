"""What notebooks show, and how far long calls are."""

import sys
import types
import xml.etree.ElementTree as xml

import numpy as np
import pytest

import ingot
from conftest import tiny_config
from ingot.display import Chart, Progress, Report, table


def well_formed(text):
    xml.fromstring(f"<div>{text.replace('&nbsp;', ' ')}</div>")
    return text


@pytest.mark.parametrize(
    "x",
    [
        ingot.tensor(3.5),
        ingot.tensor(True),
        ingot.zeros(0),
        ingot.zeros(3, 0),
        ingot.arange(5),
        ingot.randn(2, 3, 4, 5),
        ingot.ones(100, 100, dtype="bfloat16"),
        ingot.tensor([float("nan"), float("inf")]),
        ingot.ones(2, 2).requires_grad_(),
    ],
    ids=str,
)
def test_tensors_are_shown_with_shape_dtype_and_a_corner(x):
    shown = well_formed(x._repr_html_())
    assert x.dtype.name in shown and x.device in shown and all(str(size) in shown for size in x.shape)
    assert len(shown) < 20_000


def test_large_tensors_show_their_edges():
    shown = ingot.arange(10_000).reshape(100, 100)._repr_html_()
    assert ">0<" in shown and ">9999<" in shown and "…" in shown and ">5050<" not in shown


def test_modules_list_their_parameters():
    shown = well_formed(ingot.nn.Linear(3, 4)._repr_html_())
    assert "Linear" in shown and "weight" in shown and "4 × 3" in shown and "16 parameters" in shown


def test_models_and_runs_are_shown(trained, llm, tmp_path):
    folder, result, losses = trained
    assert "llama" in well_formed(llm._repr_html_())
    assert "parameters" in well_formed(ingot.LanguageModel.from_pretrained(result["model"])._repr_html_())
    with ingot.Trainer(tiny_config(tmp_path, max_steps=3)) as trainer:
        found = trainer.train(progress=False)
        chart = trainer.plot()
        assert [x for x, _ in chart.lines["training"]] == [1, 2, 3]
        assert "step 3 of 3" in well_formed(trainer._repr_html_())
    assert found["model"] in well_formed(found._repr_html_())


def test_studies_are_shown():
    study = ingot.tune.create_study({"x": {"low": -1.0, "high": 1.0}}, n_trials=6)
    assert "0 trials" in well_formed(study._repr_html_())
    study.optimize(lambda trial: trial.params["x"] ** 2)
    best = [y for _, y in study.plot().lines["best"]]
    assert best == sorted(best, reverse=True) and best[-1] == study.best_value
    assert "6 trials" in well_formed(study._repr_html_())


def test_reports_are_tables_and_dicts():
    report = Report(windows=3, methods=[{"method": "naive", "mse": 0.25}], coverage={"80": 0.7}, note="<b>")
    shown = well_formed(report._repr_html_())
    assert report["windows"] == 3 and "naive" in shown and "0.25" in shown and "&lt;b&gt;" in shown
    assert well_formed(table([])) and "± " in table([{"place": (2.5, 0.1)}])


def test_charts_bear_what_numbers_do(tmp_path):
    for lines in ({}, {"a": []}, {"a": [(0, 1.0)]}, {"a": [(0, 2.0), (1, 2.0)]}, {"<a>": [(0, float("nan")), (1, 1.0), (2, float("inf"))]}):
        well_formed(Chart(lines, "<title>", "step").svg())
    Chart({"a": [(0, 1.0), (5, 3.0)]}).save(tmp_path / "chart.svg")
    assert xml.parse(tmp_path / "chart.svg").getroot().tag.endswith("svg")


def test_progress_writes_where_it_is_asked_to(capsys, monkeypatch):
    with Progress(4, "Working") as bar:
        bar.update(4)
    assert capsys.readouterr().err == ""
    with Progress(4, "Working", True) as bar:
        bar.update(1, "loss 2")
        bar.update(4)
    written = capsys.readouterr().err
    assert "Working [" in written and "4/4" in written and "loss 2" in written and written.endswith("\n")

    shown = []

    class Handle:
        def update(self, bar):
            shown.append(bar._repr_html_())

    def display(bar, display_id):
        shown.append(bar._repr_html_())
        return Handle()

    module = types.ModuleType("IPython.display")
    module.display = display
    ipython = types.ModuleType("IPython")
    ipython.get_ipython = lambda: types.SimpleNamespace(kernel=object())
    ipython.display = module
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    study = ingot.tune.create_study({"x": {"low": 0.0, "high": 1.0}}, n_trials=3)
    study.optimize(lambda trial: trial.params["x"])
    assert any("<progress" in text for text in shown) and "Trials" in shown[0]
    rng = np.random.default_rng(0)
    frame = rng.normal(size=(200, 1)).cumsum(0)
    told = []
    ingot.forecast.Forecaster("dlinear", horizon=4, lookback=8, epochs=1).fit(frame, on_step=lambda *step: told.append(step))
    assert told and "Fitting" in shown[-1]
    assert capsys.readouterr().err == ""
