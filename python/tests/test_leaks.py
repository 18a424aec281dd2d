"""Calls leave no memory behind. INGOT_THOROUGH=1 (a part of ./dev check --deep): a hundred thousand of each kind."""

import ctypes
import gc
import os
import sys
import warnings

import numpy as np
import pytest

import ingot
from conftest import rounds


class Heap(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()]


mallinfo2 = ctypes.CDLL(None).mallinfo2
mallinfo2.restype = Heap


def in_use():
    """Bytes that malloc has given, and Python's own blocks. (Nothing by malloc under AddressSanitizer.)"""
    gc.collect()
    heap = mallinfo2()
    return heap.uordblks + heap.hblkhd, sys.getallocatedblocks()


def leave_nothing(work, usual, calls, moving=0):
    """Half of the rounds fills what is kept for later. Of the others each may leave 256 bytes and half an object; with
    INGOT_THOROUGH 16 bytes, less than the least that malloc gives. Most kinds leave none at all. A cache may grow late, once;
    what leaks does so again: the other half is repeated, twice at most, where it leaves more.

    `moving`: bytes that threads hold at one moment and not at another, however many rounds there are."""
    half = rounds(usual, calls) // 2
    allowed = moving + half * (16 if "INGOT_THOROUGH" in os.environ else 256)
    for _ in range(half):
        work()
    left = []
    for _ in range(3):
        bytes_before, blocks_before = in_use()
        for _ in range(half):
            work()
        bytes_after, blocks_after = in_use()
        left.append((bytes_after - bytes_before, blocks_after - blocks_before))
        if left[-1][0] < allowed and left[-1][1] < max(half // 2, 100):
            return
    raise AssertionError(f"(bytes, objects) left of {half} rounds, three times: {left}; expected less than {allowed} bytes")


def test_operations_views_and_errors():
    a = np.ones(256, np.float32)

    def work():
        y = (ingot.from_dlpack(a) * 2 + 1)[1:5]
        np.asarray(y)
        try:
            y @ ingot.ones(3)
        except ValueError:
            pass

    leave_nothing(work, usual=20000, calls=5)


def test_tensors_whose_owner_died_and_capsules_that_nobody_takes():
    def work():
        held = np.from_dlpack(ingot.from_dlpack(np.full(100, 3.0))[10:])
        ingot.ones(8).__dlpack__()
        memoryview(ingot.ones(4)).release()
        assert held[0] == 3

    leave_nothing(work, usual=4000, calls=5)


def test_gradients_and_optimizers():
    weight = ingot.ones(8, 8).requires_grad_()
    optimizer = ingot.optim.AdamW([weight])

    def work():
        loss = ((weight @ weight).relu() * ingot.from_dlpack(np.ones(8, np.float32))).sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    leave_nothing(work, usual=2000, calls=7)


def test_games():
    games = ingot.rl.VectorGame("connect_four", games=4, seed=1)

    def work():
        games.step(games.observe()[1].argmax(1))
        ingot.rl.VectorGame("connect_four", games=2)
        with pytest.raises(ValueError):
            games.step(ingot.zeros(3))

    leave_nothing(work, usual=1500, calls=5)


def test_studies():
    study = ingot.tune.create_study({"x": {"low": 0.0, "high": 1.0}}, n_trials=10)

    def work():
        ingot.tune.create_study({"x": {"low": 0.0, "high": 1.0}}, n_trials=2)
        with pytest.raises(ValueError):
            study.best_value  # of no trial

    leave_nothing(work, usual=400, calls=2)


def test_tokens_and_templates(llm):
    def work():
        ids = llm.tokenizer.encode("The cat sat on the mat.")
        llm.tokenizer.decode(ids)
        llm.tokenizer.encode_batch(["a", "b"])
        with pytest.raises(TypeError):
            llm.tokenizer.encode(5)

    leave_nothing(work, usual=2000, calls=4)


def test_texts_streams_and_callbacks_that_raise(llm):
    def fail(tokens, logits):
        raise LookupError("enough")

    def work():
        llm.generate("The", max_tokens=2, logits_processor=lambda tokens, logits: logits * 1, choice=["a", "b"])
        with pytest.raises(LookupError):
            llm.generate("The", logits_processor=fail)
        llm.generate("The", max_tokens=50, stream=True).cancel()
        list(llm.generate("The", max_tokens=4, stream=True))

    leave_nothing(work, usual=1200, calls=20, moving=1 << 18)  # so are polls of a stream and calls of a processor


def test_sentence_vectors(llm):
    leave_nothing(lambda: llm.embed(["a cat", "a dog"], normalize=True), usual=400, calls=1)


def test_tables_that_are_read_and_refused():
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"ds": range(30), "y": [float(i % 5) for i in range(30)], "name": ["a"] * 30})
    nested = frame.with_columns(x=polars.lit([1]))

    def work():
        ingot._core._Table.of_arrow(frame, "the frame", None)
        with pytest.raises(ingot.errors.DataError):
            ingot._core._Table.of_arrow(nested, "the frame", None)

    leave_nothing(work, usual=2000, calls=2)


def test_weights(tmp_path):
    ingot.save({"w": ingot.ones(2, 3)}, tmp_path / "w.safetensors")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")

        def work():
            ingot.open(tmp_path / "w.safetensors")["w"].sum()
            with pytest.raises(OSError):
                ingot.open(tmp_path / "none.safetensors")

        leave_nothing(work, usual=400, calls=3)
