"""Each line of what may be handed in wrongly: an exception, never a crash, and the next call works."""

import gc
import os
import threading
import time
import warnings
import weakref

import numpy as np
import pytest

import ingot
from conftest import tiny_config
from test_errors import run_python

REFUSED = (ingot.errors.Error, ValueError, TypeError, BufferError, IndexError)


@pytest.mark.parametrize("value", ["float32", 3.5, None, [1.0], b"bytes", {}, 2**70, float("nan"), object()], ids=str)
@pytest.mark.parametrize("name", ["matmul", "softmax", "cat", "embedding", "cross_entropy", "rms_norm", "conv1d", "where", "topk", "reshape"])
def test_operations_take_no_other_things(name, value):
    with pytest.raises(REFUSED):
        getattr(ingot, name)(value, value, value)


def test_dtypes_devices_and_layouts_that_do_not_fit():
    words, halves, matrix = ingot.arange(4), ingot.ones(4, dtype="float16"), ingot.ones(3, 4)
    for call in (
        lambda: words.relu(),
        lambda: matrix @ ingot.ones(4, dtype="float64"),
        lambda: ingot.embedding(halves, matrix),
        lambda: ingot.cross_entropy(matrix, ingot.ones(3)),
        lambda: ingot.cross_entropy(matrix, ingot.tensor([0, 1, 9])),
        lambda: matrix.index_select(0, ingot.tensor([5])),
        lambda: matrix.gather(1, ingot.tensor([[7]])),
        lambda: matrix.to(device="cuda:99"),
        lambda: matrix.to(device="tpu"),
        lambda: matrix.permute(0, 0),
        lambda: matrix.expand(2, 2),
        lambda: matrix.view(5, -1),
        lambda: matrix[None, None, None, None, None, None, None],
        lambda: ingot.conv1d(matrix, matrix),
        lambda: ingot.ones(2, dtype="bool") & ingot.ones(2),
        lambda: ingot.ones(-1),
        lambda: ingot.ones(2**40, 2**40),
        lambda: ingot.arange(0, 1e300),
        lambda: ingot.arange(2**50),
        lambda: ingot.arange(0, 1, 0),
        lambda: ingot.linspace(0, 1, -5),
        lambda: ingot.linspace(0, 1, 2**50),
        lambda: ingot.eye(2**40),
        lambda: matrix[2**70],
        lambda: matrix[-(2**70)],
        lambda: ingot.arange(0, 2**70, 2**62),
        lambda: ingot.set_num_threads(10**9),
        lambda: memoryview(matrix.T).cast("B"),
        lambda: ingot.rl.VectorGame("mahjong", 2).step(ingot.ones(4, dtype="int32")[::2]),
    ):
        with pytest.raises(REFUSED + (MemoryError,)):
            call()
    with pytest.raises(IndexError, match="of more than 64 bits is out of range"):
        matrix[10**5000]
    assert (matrix @ matrix.T).sum().item() == 36


def test_read_only_arrays_are_never_written_to():
    array = np.arange(4, dtype=np.float32)
    array.flags.writeable = False
    with pytest.raises(BufferError):
        ingot.from_dlpack(array)
    for made in (ingot.asarray(array), ingot.tensor(array)):
        made.zero_()
    np.testing.assert_array_equal(array, [0, 1, 2, 3])
    frozen = np.frombuffer(b"\0" * 16, np.float32)
    ingot.asarray(frozen).fill_(1)
    assert not frozen.any()


@pytest.mark.parametrize("make", [ingot.tensor, ingot.asarray], ids=["tensor", "asarray"])
def test_what_no_tensor_holds_is_named_with_what_one_does(make):
    endless = []
    endless.append(endless)
    deep = 1.0
    for _ in range(3000):
        deep = [deep]
    for lists in (endless, deep):
        with pytest.raises(ingot.errors.DimensionMismatch, match="at most 6 axes"):
            make(lists)
    for dtype in (">f4", "M8[s]", "U3", "O", "longdouble", [("a", "f4")]):
        with pytest.raises(TypeError, match="cannot become a tensor: give numbers"):
            make(np.zeros(2, dtype))
    with pytest.raises(TypeError, match="a str cannot become a tensor"):
        make("text")

    class Recorded:
        def __dlpack__(self, **how):
            raise BufferError("it requires a gradient: use detach()")

    with pytest.raises(TypeError, match=r"byte order. What its own library says: it requires a gradient: use detach\(\)") as told:
        make(Recorded())
    assert isinstance(told.value.__cause__, BufferError)


def test_an_array_that_is_read_backwards_is_copied():
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    copy = ingot.asarray(array[::-1, ::-1])
    assert copy.tolist() == [[5, 4, 3], [2, 1, 0]]
    copy.zero_()
    assert array.sum() == 15


def test_a_tensor_that_was_never_made_is_refused():
    bare = ingot.Tensor.__new__(ingot.Tensor)
    for call in (memoryview, ingot.from_dlpack, ingot.tensor, lambda x: x + 1, lambda x: x.shape):
        with pytest.raises((BufferError, TypeError)), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            call(bare)


def test_memory_outlives_every_owner():
    tensor = ingot.arange(1000)
    view, array, buffer = tensor[10:20], np.asarray(tensor), memoryview(tensor)
    alive = weakref.ref(array)
    del tensor
    gc.collect()
    junk = [ingot.full([1000], 7) for _ in range(20)]
    assert view.tolist() == list(range(10, 20)) and array[999] == 999 and buffer[5] == 5 and len(junk) == 20
    shared = ingot.from_dlpack(array)
    del array
    gc.collect()
    assert alive() is not None or shared[0].item() == 0
    assert shared[999].item() == 999


def test_what_is_closed_says_so_and_what_was_taken_from_it_lives(trained, tmp_path):
    llm = ingot.LLM(trained[1]["model"])
    tokenizer, stream = llm.tokenizer, llm.generate("The", stream=True, max_tokens=1000, ignore_eos=True)
    llm.close()
    llm.close()
    stream.cancel()
    assert stream.result().finish_reason == "cancelled"
    for call in (lambda: llm.generate("a"), lambda: llm.logits("a"), lambda: llm.generate("a", stream=True)):
        with pytest.raises(ingot.errors.Error, match="closed"):
            call()
    assert tokenizer.decode(tokenizer.encode("The cat")) == "The cat"

    trainer = ingot.Trainer(tiny_config(tmp_path, max_steps=2))
    model = trainer.model
    trainer.step()
    trainer.close()
    trainer.close()
    for call in (trainer.step, trainer.finish, trainer.train, trainer.evaluate, trainer.history, lambda: trainer.model, lambda: trainer.steps_done):
        with pytest.raises(ingot.errors.Error, match="closed"):
            call()
    del trainer
    gc.collect()
    assert model(ingot.tensor([[1, 2, 3]])).shape == (1, 3, model.vocab_size)


def test_two_threads_on_one_handle_take_turns_or_are_told(trained, llm, tmp_path):
    def hammer(call, threads=4, times=30):
        busy, other = [], []

        def work():
            for _ in range(times):
                try:
                    call()
                except ingot.errors.Busy as error:
                    busy.append(error)
                except Exception as error:
                    other.append(error)

        workers = [threading.Thread(target=work) for _ in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert not other, other[0]
        return busy

    games = ingot.rl.VectorGame("mahjong", 32, seed=1)
    assert all("one call at a time" in str(error) for error in hammer(games.observe))
    seats = ingot.rl.SeatGames("mahjong", 16)
    hammer(seats.observe)
    weights = ingot.ones(256, 256).requires_grad_()
    (weights * weights).sum().backward()
    optimizer = ingot.optim.AdamW([weights])
    hammer(optimizer.step)
    stream = llm.generate("The cat", stream=True, max_tokens=60, ignore_eos=True)
    pieces = []
    hammer(lambda: pieces.extend(iter(stream)), times=1)
    assert stream.result().finish_reason in ("length", "stop", "cancelled")
    with ingot.Trainer(tiny_config(tmp_path, max_steps=20)) as trainer:
        hammer(trainer.step, threads=2, times=5)
        hammer(lambda: trainer.steps_done, threads=2, times=5)
    study = ingot.tune.create_study({"x": {"low": 0.0, "high": 1.0}}, n_trials=40)
    assert not hammer(lambda: study.optimize(lambda trial: trial.params["x"], n_trials=5), times=2)
    assert len(study.trials) == 40


def test_a_callback_may_not_call_back_into_what_is_at_work(tmp_path):
    found = []

    def callback(event, record):
        if event == "step":
            found.append(trainer.steps_done)
            with pytest.raises(ingot.errors.Busy):
                trainer.step()
            with pytest.raises(ingot.errors.Busy):
                trainer.close()

    trainer = ingot.Trainer(tiny_config(tmp_path, max_steps=3), callback=callback)
    trainer.train()
    trainer.close()
    assert len(found) == 3


def test_a_logits_processor_may_not_wait_for_its_own_model(trained):
    with ingot.LLM(trained[1]["model"]) as llm, ingot.LLM(trained[1]["model"]) as other:
        waiting = llm.generate("The", max_tokens=4, ignore_eos=True, stream=True)
        told = []

        def process(tokens, logits):
            for call in (llm.close, waiting.result, lambda: next(iter(waiting)), lambda: llm.logits("a"), lambda: llm.generate("a"), lambda: llm.generate("a", stream=True)):
                with pytest.raises(ingot.errors.Busy, match="logits processor"):
                    call()
            told.append(len(other.generate("a", max_tokens=2, ignore_eos=True).tokens))

        assert len(llm.generate("The", max_tokens=3, ignore_eos=True, logits_processor=process).tokens) == 3
        assert told == [2, 2, 2]
        # Several are drawn at once, each by another thread.
        assert [len(one.tokens) for one in llm.generate(["a", "b", "c"], max_tokens=2, ignore_eos=True, logits_processor=process)] == [2, 2, 2]


def test_a_model_whose_last_user_is_its_own_processor_ends(trained):
    dropped = threading.Event()

    def start():
        llm = ingot.LLM(trained[1]["model"])
        ended = threading.Event()
        weakref.finalize(llm, ended.set)

        def process(tokens, logits):
            dropped.wait(30)
            assert llm

        llm.generate("The", max_tokens=5, ignore_eos=True, stream=True, logits_processor=process)
        return ended

    def threads():
        return set(os.listdir("/proc/self/task"))

    with ingot.LLM(trained[1]["model"]) as other:  # this thread's own helpers begin here
        assert len(other.generate("The", max_tokens=2, ignore_eos=True).tokens) == 2
    before = threads()
    ended = start()
    gc.collect()
    assert threads() - before and not ended.is_set()
    dropped.set()
    assert ended.wait(30)
    until = time.monotonic() + 30
    while threads() - before and time.monotonic() < until:
        time.sleep(0.01)
    assert threads() <= before


def test_closing_a_model_ends_what_another_thread_waits_for(trained):
    # With a time limit: who drops the scheduler last waits for a thread that needs Python's lock.
    source = f"""
import threading, time, ingot
llm = ingot.LLM({trained[1]['model']!r})
inside = threading.Event()
def process(tokens, logits):
    inside.set()
    time.sleep(0.5)
stream = llm.generate("The", max_tokens=40, ignore_eos=True, stream=True, logits_processor=process)
inside.wait()
threading.Timer(0.3, llm.close).start()
try:
    llm.logits("a")
except ingot.errors.Error as error:
    print(error)
print(stream.result().finish_reason)
"""
    result = run_python(source)
    assert result.stdout.splitlines() == ["the model is closed", "cancelled"], result.stderr


def test_callbacks_that_raise_leave_their_call(llm, tmp_path):
    def fail(*arguments):
        raise LookupError("enough")

    frame = np.random.default_rng(0).normal(size=(200, 1)).cumsum(0)
    with pytest.raises(LookupError):
        ingot.forecast.Forecaster("dlinear", horizon=4, lookback=8, epochs=1).fit(frame, on_step=fail)
    with pytest.raises(LookupError):
        ingot.Trainer(tiny_config(tmp_path / "a" if (tmp_path / "a").mkdir() is None else tmp_path), callback=fail).train()
    with pytest.raises(LookupError):
        llm.generate("The", logits_processor=fail)
    with pytest.raises(LookupError):
        ingot.tune.create_study({"x": {"low": 0.0, "high": 1.0}}).optimize(fail)
    with pytest.raises(LookupError):
        ingot.rl.SeatGames("mahjong", 2, seat=3, opponents=fail)
    assert llm.generate("The", max_tokens=1).tokens


@pytest.mark.parametrize(
    "work",
    [
        "x = ingot.ones(300, 300); (x @ x).sum().item(); child = lambda: (x @ x)[0, 0].item() == 300",
        "games = ingot.rl.VectorGame('mahjong', 64); games.observe(); child = lambda: games.observe()[1].numpy().any()",
        "study = ingot.tune.create_study({'x': {'low': 0.0, 'high': 1.0}}); study.ask(); child = lambda: study.ask() is not None",
    ],
    ids=["tensors", "games", "studies"],
)
def test_a_forked_child_goes_on_or_is_told(work):
    source = f"""
import os, ingot
{work}
pid = os.fork()
if pid == 0:
    try:
        os._exit(0 if child() else 1)
    except ingot.errors.Error:
        os._exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), child())
"""
    result = run_python(source)
    assert result.stdout.split() == ["0", "True"], result.stderr


@pytest.mark.parametrize(
    "work",
    [
        "threading.Thread(target=lambda: llm.generate('The', max_tokens=100000, ignore_eos=True), daemon=True).start()",
        "streams = [llm.generate('The', max_tokens=100000, ignore_eos=True, stream=True) for _ in range(4)]; next(iter(streams[0]))",
        "a = ingot.ones(512, 512); threading.Thread(target=lambda: [a @ a for _ in range(1000000)], daemon=True).start()",
    ],
    ids=["thread", "streams", "matmul"],
)
def test_the_interpreter_may_end_while_threads_compute(trained, work):
    source = f"import threading, time, ingot\nllm = ingot.LLM({trained[1]['model']!r})\n{work}\ntime.sleep(0.2)"
    result = run_python(source, env={**os.environ, "PYTHONMALLOC": "debug"})
    assert (result.returncode, result.stderr) == (0, "")
