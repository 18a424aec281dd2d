"""Plugins of examples/plugins, loaded into Python; each in a process of its own, since they stay."""

import os
import pathlib
import subprocess
import sys

import pytest

import ingot

PLUGINS = pathlib.Path(ingot.__file__).parents[2] / "plugins"  # of the build folder


def plugin(name):
    path = PLUGINS / f"{name}.so"
    if not path.is_file():
        pytest.skip(f"{name} is not built (INGOT_EXAMPLES)")
    return str(path)


def python(code, **environment):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **environment}, timeout=120
    )


def test_an_environment_is_played():
    done = python(
        f"import ingot; ingot.load_plugin({plugin('example_environment')!r})\n"
        "games = ingot.rl.VectorGame('nim', games=3, seed=1)\n"
        "observations, legal = games.observe(); rewards, ended = games.step([0, 0, 0])\n"
        "print(observations.shape, legal.shape, list(ingot.loaded_plugins().values()))"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "(3, 1) (3, 3) [['environment nim']]"


def test_a_weight_format_is_opened(tmp_path):
    (tmp_path / "model.ttxt").write_text("tensors as text\na 2 2 = 1 2 3 4\n")
    done = python(
        f"import ingot; ingot.load_plugin({plugin('example_weight_format')!r})\n"
        f"print(ingot.load({str(tmp_path / 'model.ttxt')!r})['a'].tolist())"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[[1.0, 2.0], [3.0, 4.0]]"


def test_a_backend_is_a_device_and_a_kernel_is_used():
    done = python(
        f"import ingot; ingot.load_plugin({plugin('example_backend')!r}); ingot.load_plugin({plugin('example_kernel')!r})\n"
        "x = ingot.tensor([[1.0, 2.0]]).to('toy')\n"
        "print(x.device.partition(':')[0], (x @ x.T).cpu().tolist(), [p for parts in ingot.loaded_plugins().values() for p in parts])"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("toy [[5.0]]") and "kernel silu_mul (plugin_loop)" in done.stdout


def test_a_reporter_is_told_of_a_training(trained, tmp_path):
    from conftest import tiny_config

    config = tiny_config(tmp_path, report_to="csv", max_steps=2)
    done = python(f"import ingot; ingot.Trainer({config!r}).train()", INGOT_PLUGINS=plugin("example_reporter"))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "loss.csv").read_text().splitlines()[0] == "step,loss,learning_rate"
    assert len((tmp_path / "out" / "loss.csv").read_text().splitlines()) == 3


def test_an_onnx_operator_is_listed():
    done = python("import ingot; print(ingot.loaded_plugins())", INGOT_PLUGINS=plugin("example_onnx_op"))
    assert done.returncode == 0 and "ONNX operator" in done.stdout, done.stderr


def test_another_version_is_refused_with_both():
    path = plugin("faulty_other_version")
    with pytest.raises(ingot.errors.InvalidConfig, match="was built for Ingot 9.7"):
        ingot.load_plugin(path)
    done = python("import ingot", INGOT_PLUGINS=path)
    assert done.returncode != 0 and "was built for Ingot 9.7" in done.stderr
