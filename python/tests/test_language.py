"""Writing text, and training what writes it."""

import asyncio
import json
import os
import signal
import threading

import pytest

import ingot

from conftest import tiny_config


def test_a_run_learns_and_tells_every_step(trained):
    _, result, losses = trained
    assert result["end"] == "finished" and result["steps"] == 6 and len(losses) == 6
    assert losses[-1] < losses[0] - 0.2


def test_steps_one_by_one_give_the_bits_of_a_whole_run(trained, tmp_path):
    with ingot.Trainer(tiny_config(tmp_path)) as trainer:
        assert trainer.total_steps == 6
        while trainer.step():
            pass
        result = trainer.finish()
        assert trainer.evaluate() is not None
        assert len(trainer.history()) == 6
    mine, other = ingot.load(result["model"]), ingot.load(trained[1]["model"])
    assert mine.keys() == other.keys()
    assert all((mine[name] != other[name]).float().sum().item() == 0 for name in mine)


def test_a_run_goes_on_from_what_save_wrote(trained, tmp_path):
    config = tiny_config(tmp_path)
    with ingot.Trainer(config) as trainer:
        trainer.step(), trainer.step()
        checkpoint = trainer.save()
    assert os.path.isdir(checkpoint) and str(tmp_path) in checkpoint
    with ingot.Trainer(config, resume=True) as trainer:
        assert trainer.steps_done == 2
        trainer.train()
        assert [record["loss"] for record in trainer.history()][-4:] == trained[2][-4:]


def test_a_callback_that_raises_saves_and_leaves(tmp_path):
    def callback(event, record):
        if event == "step" and record["step"] == 3:
            raise LookupError("enough")

    trainer = ingot.Trainer(tiny_config(tmp_path), callback=callback)
    with pytest.raises(LookupError, match="enough"):
        trainer.train()
    trainer.close()
    with ingot.Trainer(tiny_config(tmp_path), resume=True) as again:
        assert again.steps_done >= 3
        assert again.train()["steps"] == 6


class Told(ingot.Reporter):
    def __init__(self):
        self.events = []

    def begin(self, info):
        self.events.append(("begin", info["total_steps"], info["model_type"], info["device"]))

    def step(self, record):
        self.events.append(("step", record["step"]))

    def saved(self, checkpoint):
        self.events.append(("saved", os.path.isdir(checkpoint)))

    def finish(self):
        self.events.append(("finish",))


def test_reporters_hear_a_run_from_its_begin_to_its_end(tmp_path):
    one, two = Told(), Told()
    with ingot.Trainer(tiny_config(tmp_path, max_steps=2), reporters=[one, two]) as trainer:
        trainer.train()
    assert one.events == two.events
    assert one.events[0] == ("begin", 2, "llama", "cpu") and one.events[-1] == ("finish",)
    assert [event for event in one.events if event[0] == "step"] == [("step", 1), ("step", 2)] and ("saved", True) in one.events


def test_what_a_reporter_raises_ends_the_run(tmp_path):
    class Fails(ingot.Reporter):
        def step(self, record):
            raise LookupError("enough")

        def saved(self, checkpoint):
            raise ValueError("the first exception leaves the call")

    one = Told()
    with ingot.Trainer(tiny_config(tmp_path, max_steps=4), reporters=[Fails(), one]) as trainer, pytest.raises(LookupError):
        trainer.train()
    assert [event for event in one.events if event[0] == "step"] == [("step", 1)]
    assert ("saved", True) in one.events and one.events[-1] == ("finish",)


def test_reporters_hear_the_end_of_a_run_that_is_interrupted(tmp_path):
    class Interrupts(ingot.Reporter):
        def step(self, record):
            signal.raise_signal(signal.SIGINT)

    one = Told()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # which a job in the background lacks
    try:
        with ingot.Trainer(tiny_config(tmp_path, max_steps=4), reporters=[Interrupts(), one]) as trainer, pytest.raises(KeyboardInterrupt):
            trainer.train()
    finally:
        signal.signal(signal.SIGINT, before)
    assert ("saved", True) in one.events and one.events[-1] == ("finish",)


def test_a_directory_that_was_moved_is_an_error_and_a_callbacks_own_goes_before(tmp_path):
    config = tiny_config(tmp_path)
    with ingot.Trainer(config) as trainer:
        while trainer.step():
            pass
        os.rename(config["output_dir"], tmp_path / "elsewhere")
        with pytest.raises(OSError, match="moved or removed"):
            trainer.finish()

    def callback(event, record):
        if event == "step":
            os.rename(config["output_dir"], tmp_path / "elsewhere2")
            raise LookupError("enough")

    with ingot.Trainer(config, callback=callback) as trainer:
        with pytest.raises(LookupError, match="enough"):
            trainer.step()


def test_arguments_stand_over_the_keys_of_a_file_and_of_a_dict(tmp_path):
    (tmp_path / "train.yaml").write_text(json.dumps(tiny_config(tmp_path)))
    for config in (str(tmp_path / "train.yaml"), tiny_config(tmp_path), ingot.TrainConfig(**tiny_config(tmp_path))):
        with ingot.Trainer(config, max_steps=1, output_dir=str(tmp_path / "other")) as trainer:
            assert trainer.total_steps == 1
    with pytest.raises(ValueError, match="learning_rate.*an argument of Trainer"):
        ingot.Trainer(str(tmp_path / "train.yaml"), learning_rate="fast")


def test_a_wrong_key_is_named(tmp_path):
    with pytest.raises(ValueError, match="learning_rate"):
        ingot.Trainer(tiny_config(tmp_path, learning_rat=1))


def test_a_loop_of_ones_own_trains_a_model(trained):
    model = ingot.LanguageModel.from_pretrained(trained[1]["model"])
    ids = ingot.Tokenizer(trained[1]["model"]).encode("The cat sat on the mat and looked at the moon.")
    tokens, targets = ingot.tensor([ids[:-1]]), ingot.tensor([ids[1:]])
    logits = model(tokens)
    assert logits.shape == (1, len(ids) - 1, model.vocab_size)
    loss = ingot.cross_entropy(logits, targets)
    assert loss.item() == pytest.approx(model.loss(tokens, targets).item(), rel=1e-5)
    optimizer = ingot.optim.AdamW(model.parameters(), lr=1e-2)
    first = loss.item()
    for _ in range(5):
        optimizer.zero_grad()
        loss = model.loss(tokens, targets)
        loss.backward()
        optimizer.step()
    assert model.loss(tokens, targets).item() < first


def test_texts_of_a_batch_are_those_of_single_calls(llm):
    prompts = ["The cat", "Nobody knew", "The owl sat on the"]
    together = llm.generate(prompts, max_tokens=12, temperature=0)
    assert [c.text for c in together] == [llm.generate(p, max_tokens=12, temperature=0).text for p in prompts]
    assert all(c.finish_reason in ("stop", "length") and len(c.tokens) <= 12 for c in together)


def test_streams_hold_the_same_text(llm):
    whole = llm.generate("The cat", max_tokens=16, temperature=0.9, seed=5)
    stream = llm.generate("The cat", max_tokens=16, temperature=0.9, seed=5, stream=True)
    assert "".join(stream) == whole.text == stream.completion.text
    assert stream.completion.tokens == whole.tokens

    async def collect():
        stream = llm.generate("The cat", max_tokens=16, temperature=0.9, seed=5, stream=True)
        return "".join([piece async for piece in stream])

    async def several():
        return await asyncio.gather(*[collect() for _ in range(5)])

    assert set(asyncio.run(several())) == {whole.text}


def test_the_result_of_a_stream_is_the_whole_text_whatever_was_read_of_it(llm):
    options = dict(max_tokens=16, temperature=0.9, seed=5, logprobs=1)
    whole = llm.generate("The cat", **options)
    for read in (0, 1, 3):
        stream = llm.generate("The cat", stream=True, **options)
        pieces = iter(stream)
        for _ in range(read):
            next(pieces, None)  # several may be one piece
        result = stream.result()
        assert (result.text, result.tokens, result.logprobs, result.finish_reason) == (whole.text, whole.tokens, whole.logprobs, whole.finish_reason)
        assert stream.result() is result and list(pieces) == []


def test_a_stream_that_is_left_ends_its_request(llm):
    stream = llm.generate("The cat", max_tokens=500, ignore_eos=True, stream=True)
    for _ in stream:
        break
    stream.result()
    assert stream.completion.finish_reason == "cancelled"


def test_threads_generate_together(llm):
    expected = llm.generate("The fox", max_tokens=8, temperature=0).text
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(llm.generate("The fox", max_tokens=8, temperature=0).text)) for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 6


def test_logprobs_are_those_of_the_logits(llm):
    completion = llm.generate("The cat", max_tokens=1, temperature=0, logprobs=3)
    (token, logprob, top), = completion.logprobs
    row = llm.logits(llm.tokenizer.encode("The cat"))[-1].log_softmax()
    assert logprob == pytest.approx(row[token].item(), abs=1e-4) and len(top) == 3 and top[0][0] == token


def test_an_option_that_is_not_known_suggests_the_nearest(llm):
    with pytest.raises(ValueError, match="temperature"):
        llm.generate("a", temprature=1)
    with pytest.raises(ValueError, match="top_k"):
        llm.generate("a", top_k="many")
    with pytest.raises(ValueError):
        llm.generate("The " * 5000, max_tokens=1)


def test_a_closed_model_says_so(trained):
    llm = ingot.LLM(trained[1]["model"])
    llm.close()
    with pytest.raises(ingot.errors.Error, match="closed"):
        llm.generate("a")


def test_tokens_come_back_as_the_text(llm):
    text = "The hen sat on the roof."
    assert llm.tokenizer.decode(llm.tokenizer.encode(text)) == text
    assert llm.tokenizer.encode_batch([text, "The"])[1] == llm.tokenizer.encode("The")
