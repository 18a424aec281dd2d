"""Forecasts from frames, studies, games."""

import math
import os
import time

import numpy as np
import pandas as pd
import polars as pl
import pytest

import ingot


def frame(rows=240):
    hours = pd.date_range("2024-01-01", periods=rows, freq="h")
    t = np.arange(rows)
    return pd.DataFrame({"date": hours, "load": 10 + 3 * np.sin(t * 2 * np.pi / 24), "other": np.cos(t * 2 * np.pi / 24)})


@pytest.fixture(scope="module")
def fitted():
    return ingot.forecast.Forecaster("dlinear", horizon=12, lookback=24, epochs=3, device="cpu").fit(frame())


def test_a_pandas_frame_is_continued(fitted):
    result = fitted.predict(frame(), levels=[80])
    assert list(result.columns) == ["date", "load", "load-lo-80", "load-hi-80", "other", "other-lo-80", "other-hi-80"]
    assert result["date"].iloc[0] == pd.Timestamp("2024-01-11 00:00") and len(result) == fitted.horizon == 12
    truth = 10 + 3 * np.sin(np.arange(240, 252) * 2 * np.pi / 24)
    assert np.abs(result["load"] - truth).mean() < 1.0


def test_polars_arrow_and_files_give_the_same_numbers(fitted, tmp_path):
    expected = fitted.predict(frame(), levels=[])["load"].to_numpy()
    polars = fitted.predict(pl.from_pandas(frame()), levels=[])
    assert isinstance(polars, pl.DataFrame)
    np.testing.assert_array_equal(polars["load"].to_numpy(), expected)
    frame().to_csv(tmp_path / "t.csv", index=False)
    np.testing.assert_array_equal(fitted.predict(tmp_path / "t.csv", levels=[])["load"].to_numpy(), expected)


def test_long_frames_and_indexes_work():
    long = frame().melt("date", var_name="unique_id", value_name="y").rename(columns={"date": "ds"})
    model = ingot.forecast.Forecaster("dlinear", horizon=6, lookback=24, epochs=1, device="cpu").fit(long)
    result = model.predict(long, levels=[])
    assert list(result.columns[:2]) == ["unique_id", "ds"] and set(result["unique_id"]) == {"load", "other"}
    indexed = frame().set_index("date")
    assert ingot.forecast.Forecaster("dlinear", horizon=6, lookback=24, epochs=1, device="cpu").fit(indexed).targets_ == ["load", "other"]


def test_a_saved_forecaster_forecasts_the_same(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    again = ingot.forecast.Forecaster.load(tmp_path / "model", device="cpu")
    np.testing.assert_array_equal(again.predict(frame(), [])["load"], fitted.predict(frame(), [])["load"])


def test_it_is_evaluated_beside_simple_forecasts(fitted):
    methods = {m["method"]: m for m in fitted.evaluate(frame())["methods"]}
    assert len(methods) >= 3 and all(m["mae"] >= 0 for m in methods.values())
    folds = ingot.forecast.Forecaster("dlinear", horizon=6, lookback=24, epochs=1, device="cpu").cross_validate(frame(), folds=2)
    assert len(folds["folds"]) == 2


def test_what_is_wrong_with_a_frame_is_named(fitted):
    with pytest.raises(ingot.errors.Error, match="load"):
        fitted.predict(frame().assign(load="x"))
    with pytest.raises(ValueError, match="horizn"):
        ingot.forecast.Forecaster("dlinear", horizon=6, horizn=3).fit(frame())

    def fail(done, total, loss):
        raise LookupError("enough")

    with pytest.raises(LookupError, match="enough"):
        ingot.forecast.Forecaster("dlinear", horizon=6, lookback=24, device="cpu").fit(frame(), on_step=fail)


def test_scikit_learns_checks_accept_the_estimator():
    from sklearn.utils.estimator_checks import check_estimator

    series = "rows are a series in time: neither their order nor their number is free"
    found = check_estimator(
        ingot.forecast.Forecaster("dlinear", horizon=1, lookback=2, epochs=1, device="cpu"),
        expected_failed_checks={"check_methods_sample_order_invariance": series, "check_methods_subset_invariance": series},
        on_skip=None,
    )
    assert sum(check["status"] == "passed" for check in found) >= 30


def test_arrays_are_continued_and_settings_are_parameters():
    rows = np.stack([np.sin(np.arange(200) / 4), np.cos(np.arange(200) / 4)], 1)
    model = ingot.forecast.Forecaster("dlinear", horizon=5, lookback=24, epochs=2, device="cpu").fit(rows)
    assert model.predict(rows, levels=[]).shape == (5, 2) and model.n_features_in_ == 2
    assert ingot.forecast.Forecaster("dlinear", horizon=5, lookback=24, epochs=1, device="cpu").fit(rows[:, 0]).predict(rows[:, 0]).shape == (5,)
    assert model.get_params()["lookback"] == 24 and model.set_params(lr=0.1).learning_rate == 0.1
    assert "lookback" in ingot.forecast.describe("lookback") and "patience" in dir(model)


def test_a_plot_is_a_page_of_its_own(fitted, tmp_path):
    page = fitted.plot(frame(), hold_out=12)
    page.save(tmp_path / "plot.html")
    assert "load" in (tmp_path / "plot.html").read_text() and page._repr_html_().startswith("<iframe")


SPACE = {"x": {"low": -2.0, "high": 2.0}, "kind": {"choices": ["a", "b"]}, "width": {"choices": [16, 32]}}


def test_a_study_of_several_objectives_has_a_front():
    study = ingot.tune.create_study(SPACE, directions={"loss": "minimize", "width": "maximize"}, n_trials=20, seed=1)
    assert study.best_trials == []
    study.optimize(lambda trial: (trial.params["x"] ** 2 + trial.params["width"], trial.params["width"]))
    front = study.best_trials
    assert front and all(t.values == [t.objectives["loss"], t.objectives["width"]] for t in front)
    for t in study.trials:
        assert not all(t.values[0] < f.values[0] and t.values[1] > f.values[1] for f in front)
    with pytest.raises(ValueError, match="see best_trials"):
        study.best_params
    with pytest.raises(ingot.errors.InvalidConfig, match="2 objectives"):
        other = ingot.tune.create_study(SPACE, directions=["minimize", "minimize"], n_trials=2)
        other.tell(other.ask(), 1.0)


def test_a_trial_of_the_past_has_optunas_names_and_is_read_by_keys():
    study = ingot.tune.create_study(SPACE, directions=["minimize", "maximize"], n_trials=2)
    study.optimize(lambda trial: (trial.params["x"], trial.number), n_trials=1)
    (trial,) = study.trials
    assert trial.values == [trial.params["x"], 0.0] and trial.state == "complete" and trial == study.best_trials[0]
    assert trial["params"] is trial.params and trial.get("nothing", 3) == 3 and "note" in trial and "nothing" not in trial
    assert dict(trial)["values"] == trial["values"] and "values=[" in repr(trial)
    with pytest.raises(KeyError, match="there are: number"):
        trial["nothing"]
    study.ask()
    assert study.trials[1].values is None and study.trials[1] != trial

    single = ingot.tune.create_study(SPACE, n_trials=1)
    single.optimize(lambda trial: 2.5)
    assert single.best_trial.values == [2.5] and single.best_trial.objectives == {}


@pytest.mark.parametrize(
    "suggest, why",
    [
        (lambda t: t.suggest_float("a", 0, math.inf), "high is inf; it has to be finite"),
        (lambda t: t.suggest_float("a", math.nan, 1), "low is nan; it has to be finite"),
        (lambda t: t.suggest_int("a", 0, 10**400), "has to be finite"),
        (lambda t: t.suggest_int("a", 0, 2.5), "high is 2.5; it has to be a whole number"),
        (lambda t: t.suggest_categorical("a", [1.0, math.inf]), "a choice is inf"),
    ],
)
def test_bounds_that_are_no_numbers_of_their_kind_are_refused(suggest, why):
    trial = ingot.tune.create_study().ask()
    with pytest.raises(ValueError, match=why):
        suggest(trial)
    with pytest.raises(TypeError, match="low is 'one'; it has to be a number"):
        trial.suggest_float("b", "one", 2)
    with pytest.raises(TypeError, match="a study cannot keep"):
        trial.suggest_categorical("c", [object()])


def test_bounds_and_choices_may_be_numbers_of_numpy():
    trial = ingot.tune.create_study().ask()
    assert trial.suggest_int("n", np.int64(1), np.int32(4), step=np.int8(1), log=np.bool_(False)) in (1, 2, 3, 4)
    assert 0 <= trial.suggest_float("x", np.float32(0), np.int64(1)) <= 1
    assert trial.suggest_categorical("width", np.array([16, 32])) in (16, 32)
    space = {"n": {"type": "int", "low": np.int64(1), "high": np.int64(3)}}
    assert ingot.tune.create_study(space).ask().params["n"] in (1, 2, 3)


@pytest.mark.parametrize(
    "suggest, differs",
    [
        (lambda t: t.suggest_float("x", -5, 2), "low"),
        (lambda t: t.suggest_float("x", -2, 2, log=True), "log"),
        (lambda t: t.suggest_int("n", 1, 9, step=2), "step"),
        (lambda t: t.suggest_categorical("kind", ["a", "c"]), "choices"),
    ],
)
def test_a_range_that_is_not_that_of_the_space_is_refused(suggest, differs):
    trial = ingot.tune.create_study({**SPACE, "kind": {"choices": ("a", "b")}, "n": {"type": "int", "low": 1, "high": 9}}).ask()
    assert trial.suggest_float("x", -2, 2, log=False) == trial.params["x"] == trial.suggest_float("x")
    assert trial.suggest_int("n", 1, 9, step=1) == trial.params["n"]
    assert trial.suggest_categorical("kind", ("a", "b")) in "ab"
    with pytest.raises(ValueError, match=f"{differs} is .* here and .* in the study's space"):
        suggest(trial)


def test_a_study_finds_a_minimum(tmp_path):
    study = ingot.tune.create_study(SPACE, n_trials=40, storage=tmp_path / "study.db", seed=1)
    study.optimize(lambda trial: (trial.suggest_float("x", -2, 2) - 1) ** 2 + (trial.params["kind"] == "a"))
    assert len(study.trials) == 40 and abs(study.best_params["x"] - 1) < 0.4 and study.best_params["kind"] == "b"
    assert study.best_params["width"] in (16, 32)
    assert study.best_value == min(t["value"] for t in study.trials)
    assert len(ingot.tune.create_study(SPACE, n_trials=40, storage=tmp_path / "study.db").trials) == 40


def conditional(trial):
    kind = trial.suggest_categorical("kind", ["line", "curve"])
    x = trial.suggest_float("x", -2, 2)
    bend = trial.suggest_int("bend", 1, 4) if kind == "curve" else 0
    return (x - 1) ** 2 + bend


def test_trials_say_what_they_search_where_a_study_has_no_space(tmp_path):
    study = ingot.tune.create_study(seed=1, n_trials=50, storage=tmp_path / "study.db")
    study.optimize(conditional)
    assert len(study.trials) == 50 and study.best_value < 0.05 and study.best_params["kind"] == "line"
    for trial in study.trials:
        assert ("bend" in trial.params) == (trial.params["kind"] == "curve")
        assert isinstance(trial.params.get("bend", 1), int) and trial["value"] == trial.value
    again = ingot.tune.create_study(n_trials=50, storage=tmp_path / "study.db")
    assert again.trials == study.trials and again.ask() is None


def test_a_parameter_asked_for_has_one_value_and_one_kind():
    study = ingot.tune.create_study(n_trials=2)
    trial = study.ask()
    assert trial.params == {}
    rate = trial.suggest_float("rate", 1e-5, 1e-1, log=True)
    assert 1e-5 <= rate <= 1e-1 and trial.suggest_float("rate", 1e-5, 1e-1, log=True) == rate
    assert trial.suggest_int("even", 2, 8, step=2) in (2, 4, 6, 8)
    assert trial.suggest_categorical("any", [None, True, 16, "16", 0.5]) in (None, True, 16, "16", 0.5)
    assert set(trial.params) == {"rate", "even", "any"}
    with pytest.raises(ingot.errors.InvalidConfig, match="logarithmic scale"):
        trial.suggest_float("rate", 0, 1)
    with pytest.raises(TypeError, match="say low and high"):
        trial.suggest_float("other")
    with pytest.raises(ingot.errors.InvalidConfig, match="above high"):
        trial.suggest_int("other", 5, 1)
    with pytest.raises(ingot.errors.InvalidConfig, match="grid"):
        ingot.tune.create_study(sampler="grid")
    study.tell(trial, 1.0)
    assert study.best_trial.params["rate"] == rate
    with pytest.raises(AttributeError, match="parms"):
        study.best_trial.parms


def test_a_pruner_and_workers_know_trials_that_say_what_they_search(tmp_path):
    def objective(trial):
        x = trial.suggest_float("x", -2, 2)
        for step in range(1, 6):
            trial.report(x * x, step)
            if trial.should_prune():
                raise ingot.tune.TrialPruned
        return x * x

    study = ingot.tune.create_study(n_trials=24, storage=tmp_path / "study.db", pruner="median", seed=2)
    study.optimize(objective, workers=2)
    states = [trial.state for trial in study.trials]
    assert len(states) == 24 and set(states) == {"complete", "pruned"} and all(set(t.params) == {"x"} for t in study.trials)


def test_worker_processes_share_a_study(tmp_path):
    space = {"x": {"low": -2.0, "high": 2.0}}
    study = ingot.tune.create_study(space, n_trials=30, storage=tmp_path / "study.db", seed=1)
    parent, started = os.getpid(), tmp_path / "started"
    started.mkdir()

    def objective(trial):
        (started / str(os.getpid())).touch()
        deadline = time.monotonic() + 20
        while len(list(started.iterdir())) < 3 and time.monotonic() < deadline:
            time.sleep(0.01)
        return (ingot.tensor([trial.params["x"]]) ** 2).item()

    study.optimize(objective, n_trials=12, workers=3)
    assert [t["state"] for t in study.trials] == ["complete"] * 12
    assert len(list(started.iterdir())) == 3 and not (started / str(parent)).exists()
    study.optimize(objective, workers=3)
    assert len(study.trials) == 30 and study.best_value == min(t["value"] for t in study.trials)


def test_what_a_worker_raises_leaves_the_call(tmp_path):
    study = ingot.tune.create_study(SPACE, n_trials=20, storage=tmp_path / "study.db")
    with pytest.raises(ZeroDivisionError):
        study.optimize(lambda trial: 1 / 0, workers=2)
    assert {t["state"] for t in study.trials} == {"failed"} and len(study.trials) <= 2
    with pytest.raises(ValueError, match="storage"):
        ingot.tune.create_study(SPACE).optimize(lambda trial: 0, workers=2)


def test_ask_and_tell_and_failures():
    study = ingot.tune.create_study(SPACE, n_trials=3)
    trial = study.ask()
    study.tell(trial, 1.0)
    with pytest.raises(ZeroDivisionError):
        study.optimize(lambda trial: 1 / 0, n_trials=1)
    study.optimize(lambda trial: 1 / 0, n_trials=1, catch=(ZeroDivisionError,))
    assert [t["state"] for t in study.trials] == ["complete", "failed", "failed"] and study.ask() is None


def test_games_move_together_and_repeat_for_a_seed():
    def play(steps):
        games = ingot.rl.VectorGame("mahjong", games=8, seed=4)
        total = np.zeros((8, 4))
        for _ in range(steps):
            observations, legal = games.observe()
            rewards, ended = games.step(np.asarray(legal).argmax(1).astype(np.int32))
            total += rewards.numpy()
        return observations.numpy().copy(), total

    first, again = play(200), play(200)
    assert first[0].shape == (8, 96, 34)
    np.testing.assert_array_equal(first[0], again[0])
    np.testing.assert_array_equal(first[1], again[1])


def test_an_illegal_action_is_refused_and_changes_nothing():
    games = ingot.rl.VectorGame("mahjong", games=2, seed=1)
    before = games.state()
    legal = games.observe()[1].numpy()
    with pytest.raises(ValueError, match="game 0"):
        games.step(np.array([legal[0].argmin(), 0], np.int32))
    assert games.state() == before
    games.restore(before)


def test_gymnasiums_checker_accepts_the_environment():
    from gymnasium.utils.env_checker import check_env

    check_env(ingot.rl.gymnasium_env("mahjong", illegal="end"), skip_render_check=True)
    env = ingot.rl.gymnasium_env("mahjong", seed=3)
    observation, _ = env.reset(seed=3)
    ended = False
    while not ended:
        legal = np.flatnonzero(observation["action_mask"])
        observation, reward, ended, truncated, _ = env.step(int(legal[0]))
    with pytest.raises(ValueError, match="legal"):
        env.reset(seed=4)
        env.step(45 if not env._observe()["action_mask"][45] else 44)


def test_pettingzoos_checker_accepts_the_environment():
    from pettingzoo.test import api_test

    api_test(ingot.rl.pettingzoo_env("mahjong"), num_cycles=300)
