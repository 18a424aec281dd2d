"""Texts that have to be something, and functions that change logits."""

import json
import re
import subprocess
import sys
from typing import Literal

import numpy as np
import pydantic
import pytest

import ingot


class Animal(pydantic.BaseModel):
    kind: Literal["cat", "dog"]
    legs: int = pydantic.Field(ge=0, le=8)


SCHEMA = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"], "additionalProperties": False}


def test_pydantic_models_types_and_schemas_come_back_as_values(llm):
    animal = llm.generate("The cat", json_schema=Animal, max_tokens=200).parsed
    assert isinstance(animal, Animal) and 0 <= animal.legs <= 8
    kinds = llm.generate("The cat", json_schema=list[Literal["cat", "dog"]], max_tokens=200, seed=1)
    assert kinds.finish_reason == "length" or all(kind in ("cat", "dog") for kind in kinds.parsed)
    for schema in (SCHEMA, json.dumps(SCHEMA)):
        assert isinstance(llm.generate("It is", json_schema=schema, max_tokens=100).parsed["ok"], bool)
    several = llm.generate(["The cat", "The dog"], json_schema=Animal, max_tokens=200)
    assert [type(one.parsed) for one in several] == [Animal, Animal]


def test_expressions_choices_and_grammars_hold(llm):
    assert re.fullmatch(r"[0-9]{3}-[a-f]{2}", llm.generate("The", regex=r"[0-9]{3}-[a-f]{2}").parsed)
    assert llm.generate("Is it so?", choice=["yes", "no"]).parsed in ("yes", "no")
    for grammar in ('root ::= ("ab" | "cd") "!"', 'start: ("ab" | "cd") "!"'):
        assert llm.generate("The", grammar=grammar).parsed in ("ab!", "cd!")
    stream = llm.generate("The", choice=["mat", "hill"], stream=True)
    assert "".join(stream) == stream.completion.parsed


def test_a_text_that_was_cut_or_asked_for_nothing_has_no_value(llm):
    with pytest.raises(ValueError, match="max_tokens"):
        llm.generate("The", json_schema=Animal, max_tokens=3).parsed
    with pytest.raises(ValueError, match="json_schema"):
        llm.generate("The", max_tokens=3).parsed


@pytest.mark.parametrize(
    "options, error, message",
    [
        ({"regex": "[", "max_tokens": 3}, ValueError, r"\["),
        ({"regex": "a", "choice": ["a"]}, ValueError, "only one"),
        ({"json_schema": {"type": "integr"}}, ValueError, "integr"),
        ({"json_schema": "{"}, ValueError, "JSON"),
        ({"choice": []}, ValueError, "choice"),
        ({"choice": "yes"}, ValueError, "choice"),
        ({"grammar": "root ::= other"}, ValueError, "other"),
        ({"json_schema": 5}, Exception, "5"),
        ({"logits_processor": 5}, TypeError, "logits_processor"),
    ],
)
def test_what_cannot_be_asked_for_says_why(llm, options, error, message):
    with pytest.raises(error, match=message):
        llm.generate("The", **options)


def test_a_processor_sees_the_text_so_far_and_chooses(llm):
    prompt = llm.tokenizer.encode("The cat")
    seen = []

    def only(tokens, logits):
        seen.append(tokens)
        array = np.full(logits.shape, -np.inf, np.float32)
        array[65 + len(tokens) - len(prompt)] = 0
        return array

    made = llm.generate(prompt, logits_processor=only, max_tokens=3, ignore_eos=True)
    assert made.tokens == [65, 66, 67]
    assert seen == [prompt, [*prompt, 65], [*prompt, 65, 66]]


def test_processors_change_in_place_run_in_order_and_keep_to_the_grammar(llm):
    order = []

    def raise_b(tokens, logits):
        order.append("b")
        np.asarray(logits)[ord("b")] += 1e4

    def undo(tokens, logits):
        order.append("undo")
        return logits * 0

    plain = llm.generate("The", max_tokens=6, temperature=0)
    unchanged = llm.generate("The", max_tokens=6, temperature=0, logits_processor=lambda tokens, logits: None)
    assert unchanged.tokens == plain.tokens
    assert llm.generate("The", regex="[ab]{4}", temperature=0, logits_processor=[undo, raise_b]).text in ("bbbb", "aaaa")
    assert order[:2] == ["undo", "b"]
    forbidden = lambda tokens, logits: np.where(np.arange(logits.shape[0]) == ord("z"), 1e9, -1e9).astype(np.float32)  # noqa: E731
    assert set(llm.generate("The", regex="[ab]{4}", logits_processor=forbidden).text) <= set("ab")


def test_a_processor_that_fails_ends_its_own_request(llm):
    def fail(tokens, logits):
        raise LookupError("enough")

    expected = llm.generate("The fox", max_tokens=8, temperature=0).text
    stream = llm.generate("The cat", logits_processor=fail, stream=True)
    beside = llm.generate("The fox", max_tokens=8, temperature=0, stream=True)
    for _ in range(2):
        with pytest.raises(LookupError, match="enough"):
            stream.result()
    assert beside.result().text == expected
    for wrong in (lambda tokens, logits: logits[:3], lambda tokens, logits: logits * float("nan")):
        with pytest.raises(ingot.errors.Error):
            llm.generate("The cat", logits_processor=wrong)
    with pytest.raises(TypeError):
        llm.generate("The cat", logits_processor=lambda tokens, logits: "no")


def test_the_interpreter_may_end_while_a_processor_runs(trained):
    source = f"""
import ingot, os, sys
llm = ingot.LLM({trained[1]["model"]!r})
stream = llm.generate("The cat", stream=True, max_tokens=100000, ignore_eos=True, logits_processor=lambda t, l: l * 1)
next(iter(stream))
kept = llm.generate("The cat", stream=True, max_tokens=100000, ignore_eos=True, logits_processor=lambda t, l: l * 1)
if os.fork() == 0:
    sys.exit(3)
print(os.waitstatus_to_exitcode(os.wait()[1]))
"""
    result = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=60)
    assert result.returncode == 0 and result.stdout == "3\n", result.stderr
    assert not any(word in result.stderr for word in ("leaked", "Traceback", "terminate", "Fatal")), result.stderr
