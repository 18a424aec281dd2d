"""Public names say what they do, stubs know them, the reference is up to date, and the guide's examples run."""

import asyncio
import importlib
import inspect
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ingot
from conftest import TEXT, tiny_config

ROOT = Path(__file__).parents[2]
MODULES = ["ingot"] + [f"ingot.{name}" for name in "nn optim forecast tune rl mahjong display errors array_api config".split()]


def own_names():
    for module in map(importlib.import_module, MODULES):
        for name, value in vars(module).items():
            home = getattr(value, "__module__", None) or ""
            if name.startswith("_") or inspect.ismodule(value) or not home.startswith("ingot") or not callable(value):
                continue
            yield f"{module.__name__}.{name}", value
            if inspect.isclass(value) and not issubclass(value, (BaseException, type(ingot.float32))):
                for member, found in vars(value).items():
                    if not member.startswith("_") and (callable(found) or inspect.isdatadescriptor(found)):
                        yield f"{module.__name__}.{name}.{member}", found


def test_every_public_name_says_what_it_does():
    silent = []
    for name, value in own_names():
        text = inspect.getdoc(value) or ""
        signatures = getattr(value, "__nb_signature__", None)
        if signatures is not None:
            text = "".join(signature[1] or "" for signature in signatures)
        if len(text) < 3 and not name.endswith((".forward",)):
            silent.append(name)
    assert not silent


def test_the_reference_is_up_to_date():
    tool = ROOT / "tools" / "docs" / "python_api.py"
    result = subprocess.run([sys.executable, str(tool), "--check"], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def sections(page):
    """(heading, code) of the Python code below each heading."""
    heading, code = "", []
    for part in re.split(r"^(## .+)$", page, flags=re.MULTILINE):
        if part.startswith("## "):
            heading = part[3:]
            continue
        code = re.findall(r"^```python\n(.*?)^```", part, flags=re.MULTILINE | re.DOTALL)
        if code:
            yield heading, "\n".join(code)


PAGE = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
# The part of each guide that says how its task is done in Python.
GUIDES = {path.name: dict(sections(path.read_text(encoding="utf-8"))).get("In Python") for path in sorted((ROOT / "docs").glob("*.md"))}
GUIDES = {name: code for name, code in GUIDES.items() if code}


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """A folder with the files that the guide's examples name."""
    place = tmp_path_factory.mktemp("guide")
    with ingot.Trainer(tiny_config(place, chat_template="chatml", max_steps=2)) as trainer:
        shutil.copytree(trainer.train()["model"], place / "model")
    ingot.convert(place / "model", place / "model.gguf")
    (place / "text.txt").write_text(TEXT, encoding="utf-8")
    (place / "train.yaml").write_text(
        "architecture: {model_type: llama, hidden_size: 32, num_hidden_layers: 1, num_attention_heads: 2}\n"
        "datasets: [{path: text.txt}]\nvocab_size: 300\nsequence_len: 32\noutput_dir: run\nreport_to: none\n"
    )
    shutil.copy(ROOT / "examples" / "data" / "mlp.onnx", place)
    hours = [f"2024-01-{1 + i // 24:02}T{i % 24:02}:00,{10 + i % 24}.5\n" for i in range(24 * 20)]
    (place / "load.csv").write_text("date,load\n" + "".join(hours))
    config = {"base_model": str(place / "model"), "adapter": "lora", "lora_r": 2, "lora_target_linear": True, "max_steps": 1}
    config |= {"datasets": [{"path": str(place / "text.txt")}], "sequence_len": 32, "output_dir": str(place / "out" / "tuned"), "report_to": "none"}
    ingot.Trainer(config).train()
    shutil.copytree(place / "out" / "tuned" / "adapter", place / "adapter")
    events = []
    table = ingot.mahjong.Table(seed=1)
    while not table.over:
        if table.round_over:
            table.next_round()
        for player in table.to_act:
            table.act(player, table.legal(player)[-1])
    events = table.events()
    import gzip
    import json

    (place / "game.json.gz").write_bytes(gzip.compress("".join(json.dumps(event) + "\n" for event in events).encode()))
    return place


def smaller(code):
    """The same with less work."""
    for before, after in (
        ("max_steps=100", "max_steps=2"),
        ("context=4096", "context=512"),
        ("max_tokens=100", "max_tokens=8"),
        ("max_tokens=64", "max_tokens=8"),
        ("hold_out=24", "hold_out=8"),
        ("horizon=24, lookback=96", "horizon=8, lookback=16, epochs=1"),
        ("n_trials=50", "n_trials=3"),
        ("walls=25", "walls=1"),
        ("games=512", "games=8"),
    ):
        code = code.replace(before, after)
    return code


@pytest.mark.parametrize("heading", [heading for heading, _ in sections(PAGE)])
def test_the_guides_examples_run(heading, folder, monkeypatch):
    code = dict(sections(PAGE))[heading]
    monkeypatch.chdir(folder)
    rng = np.random.default_rng(0)
    polars = pytest.importorskip("polars")
    import datetime
    from typing import Literal

    import pydantic

    days = [datetime.date(2024, 1, 1) + datetime.timedelta(days=i) for i in range(200)]
    names = {
        "ingot": ingot,
        "np": np,
        "pydantic": pydantic,
        "Literal": Literal,
        "llm": ingot.LLM("model.gguf"),
        "array": np.ones(3, np.float32),
        "frame": polars.DataFrame({"date": days, "load": rng.normal(size=200).cumsum()}),
        "train": lambda lr: lr,
        "tokens": ingot.tensor([[1, 2, 3]]),
        "targets": ingot.tensor([[2, 3, 4]]),
        "observations": None,
        "f": None,
    }
    try:
        import torch

        names["torch"] = torch
    except ImportError:
        code = code.replace("torch.from_dlpack(x); ", "")
    code = code.replace("rewards, ended = games.step(actions)", "actions = legal.argmax(1).to(ingot.int32)\nrewards, ended = games.step(actions)")
    code = code.replace('ingot.Embedder("all-MiniLM-L6-v2")', "pytest_embedder")
    code = re.sub(r"^vectors = pytest_embedder.*$", "", code, flags=re.MULTILINE)  # needs a model that no fixture makes
    exec(compile(smaller(code), f"docs/python.md, {heading}", "exec"), names)
    if "answer" in names and asyncio.iscoroutinefunction(names["answer"]):
        asyncio.run(names["answer"]("Hello"))


def test_every_guide_of_a_task_that_python_has_says_how():
    tasks = "training fine-tuning continue-training inference serving forecasting tuning quantize weights embed self-play mahjong adapters text onnx tracing memory"
    assert [f"{task}.md" for task in tasks.split() if f"{task}.md" not in GUIDES] == []


@pytest.mark.parametrize("guide", GUIDES)
def test_what_a_guide_says_of_python_runs(guide, folder, monkeypatch):
    monkeypatch.chdir(folder)
    exec(compile(smaller(GUIDES[guide]), f"docs/{guide}, In Python", "exec"), {})
