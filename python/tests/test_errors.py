"""What goes wrong is an exception with fields, whatever was handed in."""

import gc
import os
import pickle
import resource
import subprocess
import sys
import threading

import numpy as np
import pytest

import ingot


def test_errors_are_builtin_exceptions_with_fields():
    with pytest.raises(ValueError) as caught:
        ingot.ones(2, 3) @ ingot.ones(4, 5)
    assert isinstance(caught.value, ingot.errors.ShapeMismatch)
    assert caught.value.kind == "shape_mismatch"
    assert (tuple(caught.value.expected), tuple(caught.value.actual)) == ((3, 5), (4, 5))
    with pytest.raises(OSError) as caught:
        ingot.open("/nowhere/model.safetensors")
    assert caught.value.path == "/nowhere/model.safetensors"
    with pytest.raises(ValueError) as caught:
        ingot.LLM("/nowhere", device="tpu")
    assert isinstance(caught.value, ingot.errors.InvalidConfig)


@pytest.mark.parametrize(
    "call",
    [
        lambda: ingot.ones(2) + ingot.ones(3),
        lambda: ingot.ones(2) + ingot.ones(2, dtype="int64"),
        lambda: ingot.ones(2).to("float99"),
        lambda: ingot.tensor([[1, 2], [3]]),
        lambda: ingot.tensor(np.array(["a"])),
        lambda: ingot.tensor(np.ones((1,) * 8)),
        lambda: ingot.tensor(np.ones(2, np.complex64)),
        lambda: ingot.from_dlpack(5),
        lambda: ingot.from_dlpack(None),
        lambda: ingot.ones(2).reshape(3),
        lambda: ingot.ones(2).backward(),
        lambda: ingot.arange(3).requires_grad_(),
        lambda: ingot.ones(2, 2).item(),
        lambda: ingot.optim.SGD([]),
        lambda: ingot.optim.SGD([ingot.ones(2)]),
        lambda: ingot.embedding(ingot.tensor([9]), ingot.ones(3, 2)),
        lambda: np.asarray(ingot.ones(2, dtype="bfloat16")),
        lambda: memoryview(ingot.ones(2, 2).T).cast("B"),
        lambda: ingot.full([-1], 0),
        lambda: ingot.Tensor(),
        lambda: ingot.rl.VectorGame("chess"),
        lambda: ingot.tune.create_study({"x": {"low": 2, "high": 1}}),
    ],
)
def test_what_cannot_be_is_an_exception(call):
    with pytest.raises((ingot.errors.Error, ValueError, TypeError, BufferError)) as caught:
        call()
    assert str(caught.value)


def test_a_capsule_is_taken_once():
    capsule = ingot.ones(2).__dlpack__()
    ingot.from_dlpack(capsule)
    with pytest.raises((ValueError, TypeError)):
        ingot.from_dlpack(capsule)


def test_capsules_that_nobody_takes_leak_nothing():
    x = ingot.ones(1 << 18)
    for _ in range(200):
        x.clone().__dlpack__()
    assert peak_megabytes() < 2000


def peak_megabytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024




def test_other_threads_run_while_an_operation_computes():
    x = ingot.randn(600, 600)
    stop, counted = threading.Event(), [0]

    def count():
        while not stop.is_set():
            counted[0] += 1

    thread = threading.Thread(target=count)
    thread.start()
    for _ in range(30):
        x @ x
    stop.set()
    thread.join()
    assert counted[0] > 100


def test_threads_share_tensors():
    x = ingot.randn(64, 64)
    expected = (x @ x).sum().item()
    found = []

    def work():
        for _ in range(50):
            found.append((x @ x).sum().item())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(found) == {expected}


def run_python(source, **options):
    # A shell that runs the tests in the background has Ctrl-C ignored, and children inherit that.
    source = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n" + source
    return subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=120, **options)


def test_a_forked_child_is_told_to_open_its_own_model(llm):
    child = os.fork()
    if child == 0:
        try:
            llm.generate("a")
        except ingot.errors.Error as error:
            os._exit(3 if "fork" in str(error) else 4)
        os._exit(5)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3


def test_ctrl_c_ends_a_long_generation(trained):
    source = f"""
import os, signal, threading, ingot
llm = ingot.LLM({trained[1]["model"]!r})
threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    while True:
        llm.generate(["The cat"] * 8, max_tokens=1500, ignore_eos=True)
except KeyboardInterrupt:
    print("interrupted")
print(llm.generate("The", max_tokens=2).finish_reason in ("length", "stop"))
"""
    result = run_python(source)
    assert result.stdout.split() == ["interrupted", "True"], result.stderr


@pytest.mark.parametrize(
    "work",
    [
        "llm.embed(['The cat sat on the mat.'] * 200000)",
        "ingot.mahjong.arena(['rule-based', 'simple'], walls=100000)",
        "ingot.forecast.Forecaster('dlinear', horizon=8, lookback=32, epochs=100000, patience=100000).fit([[float(i % 7)] for i in range(20000)])",
        "ingot.tune.create_study({'x': {'low': 0.0, 'high': 1.0}}, n_trials=10**6).optimize(lambda trial: (ingot.ones(8) * trial.params['x']).sum().item())",
    ],
    ids=["embed", "arena", "fit", "optimize"],
)
def test_ctrl_c_ends_other_long_calls(work, trained):
    source = f"""
import os, signal, threading, ingot
llm = ingot.LLM({trained[1]["model"]!r})
threading.Timer(0.4, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    {work}
except KeyboardInterrupt:
    print("interrupted", llm.generate("The", max_tokens=2).finish_reason in ("length", "stop"))
"""
    result = run_python(source)
    assert result.stdout.split() == ["interrupted", "True"], result.stderr


def test_the_interpreter_may_end_while_text_is_written(trained):
    source = f"""
import ingot
llm = ingot.LLM({trained[1]["model"]!r})
stream = llm.generate("The cat", stream=True, max_tokens=100000, ignore_eos=True)
iterator = iter(stream)
next(iterator)
"""
    result = run_python(source, env={**os.environ, "PYTHONMALLOC": "debug"})
    assert result.returncode == 0, result.stderr


def test_importing_is_quick_and_leaves_signals_alone():
    source = "import signal, time; b = time.perf_counter(); import ingot; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
    assert run_python(source).stdout.strip() == "True"


def test_python_without_its_lock_is_told_that_ingot_needs_it():
    result = run_python("import sys; sys._is_gil_enabled = lambda: False\ntry:\n    import ingot\nexcept ImportError as error:\n    print(error)")
    assert "needs Python's global interpreter lock" in result.stdout and "PYTHON_GIL=0" in result.stdout, result.stderr


def test_the_error_classes_can_be_pickled():
    error = ingot.errors.ShapeMismatch("x")
    assert str(pickle.loads(pickle.dumps(error))) == "x"


def test_a_star_import_has_the_modules_that_are_loaded_later():
    names = {}
    exec("from ingot import *", names)
    assert {"forecast", "mahjong", "rl", "tune", "nn", "LLM", "matmul", "tensor"} <= names.keys()
    assert names["rl"] is ingot.rl and not [name for name in names if name.startswith("_") and name != "__builtins__"]
