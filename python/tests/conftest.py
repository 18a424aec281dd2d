"""A tiny model that the tests train themselves: 2 layers of 32 on a text of a few kilobytes."""

import os

import pytest

import ingot

TEXT = "\n\n".join(
    f"The {animal} sat on the {place} and looked at the {thing}. Nobody knew why it was {mood}."
    for animal in ("cat", "dog", "hen", "fox", "owl")
    for place in ("mat", "hill", "roof", "road")
    for thing in ("moon", "river", "gate")
    for mood in ("glad", "sad")
)


def rounds(usual, calls):
    """How often tests of leaks repeat what makes so many calls; INGOT_THOROUGH=1: until these are a hundred thousand."""
    return 100_000 // calls if "INGOT_THOROUGH" in os.environ else usual


def tiny_config(folder, **changes):
    (folder / "text.txt").write_text(TEXT, encoding="utf-8")
    return {
        "architecture": {"model_type": "llama", "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2},
        "datasets": [{"path": str(folder / "text.txt")}],
        "vocab_size": 320,
        "sequence_len": 32,
        "micro_batch_size": 4,
        "max_steps": 6,
        "learning_rate": 3e-3,
        "output_dir": str(folder / "out"),
        "report_to": "none",
        **changes,
    }


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """(folder, what finish() told, the losses) of a run."""
    folder = tmp_path_factory.mktemp("trained")
    losses = []
    with ingot.Trainer(
        tiny_config(folder), callback=lambda event, record: losses.append(record["loss"]) if event == "step" else None
    ) as trainer:
        result = trainer.train()
    return folder, result, losses


@pytest.fixture(scope="session")
def llm(trained):
    with ingot.LLM(trained[1]["model"]) as model:
        yield model
