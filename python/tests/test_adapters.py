"""Adapters on a model, beside it and merged into it."""

import ast
import copy
import json
from pathlib import Path

import pytest

import ingot


@pytest.fixture(scope="module")
def tuned(trained, tmp_path_factory):
    """The directory of a LoRA adapter that answers in its own way."""
    folder = tmp_path_factory.mktemp("tuned")
    messages = [{"role": "user", "content": "Where?"}, {"role": "assistant", "content": "On the roof, zzz."}]
    (folder / "chats.jsonl").write_text((json.dumps({"messages": messages}) + "\n") * 40)
    config = ingot.TrainConfig(
        base_model=trained[1]["model"],
        adapter="lora",
        lora_r=4,
        lora_target_linear=True,
        chat_template="chatml",
        datasets=[{"path": str(folder / "chats.jsonl"), "type": "chat_template"}],
        sequence_len=96,
        micro_batch_size=4,
        max_steps=10,
        learning_rate=3e-2,
        output_dir=str(folder / "out"),
        report_to="none",
    )
    return ingot.Trainer(config).train()["model"]


def test_an_adapter_changes_what_is_written_and_its_weight_says_how_much(trained, llm, tuned):
    base = llm.logits("The cat")
    with ingot.LLM(trained[1]["model"], adapters=tuned) as whole, ingot.LLM(trained[1]["model"], adapters=[(tuned, 0.0)]) as none:
        assert (whole.logits("The cat") - base).abs().max().item() > 0.1
        assert (none.logits("The cat") - base).abs().max().item() < 1e-5
    with pytest.raises(OSError, match="nowhere"):
        ingot.LLM(trained[1]["model"], adapters=["/nowhere"])


def test_a_merged_and_a_quantized_model_write_what_the_adapter_does(trained, tuned, tmp_path):
    merged = ingot.merge(trained[1]["model"], tuned, tmp_path / "merged")
    converted = ingot.convert(merged, tmp_path / "model.gguf", dtype="f32")
    small = ingot.quantize(merged, tmp_path / "small.gguf", "q8_0")
    with ingot.LLM(trained[1]["model"], adapters=tuned) as beside:
        expected = beside.logits("The cat")
    for model, most in ((merged, 1e-3), (converted, 1e-3), (small, 1.0)):
        with ingot.LLM(model) as llm:
            assert (llm.logits("The cat") - expected).abs().max().item() < most
    with pytest.raises(ValueError, match="q9"):
        ingot.quantize(merged, tmp_path / "other.gguf", "q9_9")


def test_the_stub_of_a_configuration_has_its_keys():
    source = (Path(ingot.__file__).parent / "config.pyi").read_text(encoding="utf-8")
    tree = next(node for node in ast.parse(source).body if isinstance(node, ast.ClassDef) and node.name == "TrainConfig")
    attributes = {node.target.id: ast.unparse(node.annotation) for node in tree.body if isinstance(node, ast.AnnAssign)}
    start = next(node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "__init__")
    names = ingot.TrainConfig._names()
    assert {argument.arg for argument in start.args.kwonlyargs} == set(names) and set(attributes) == set(names.values())
    assert attributes["learning_rate"] == "float | None" and attributes["max_steps"] == "int | None" and attributes["sample_packing"] == "bool | None"
    assert attributes["datasets"] == "Sequence[Mapping[str, Any]] | None" and attributes["adapter"].startswith("Literal[")
    vague = [name for name, kind in attributes.items() if kind.startswith("Any")]
    assert len(vague) < len(attributes) / 8, vague


def test_a_configuration_knows_its_keys(trained):
    config = ingot.TrainConfig(learning_rate=1e-3)
    assert config.to_dict() == {"learning_rate": 1e-3} and "micro_batch_size" in dir(config)
    with pytest.raises(AttributeError, match="learning_rate"):
        config.learning_rat = 1
    with pytest.raises(AttributeError, match="did you mean 'learning_rate'"):
        config.learning_rat
    for name in set(ingot.TrainConfig._names()) - {"learning_rate"}:
        assert getattr(config, name) == (1e-3 if ingot.TrainConfig._names()[name] == "learning_rate" else None)
    config.max_steps = 3
    config.max_steps = None
    assert config == ingot.TrainConfig(learning_rate=1e-3) == copy.deepcopy(config)
    assert ingot.TrainConfig(lr=1).to_dict() == {"learning_rate": 1}
    assert "default" in ingot.TrainConfig.describe("lora_r") and "datasets.N.path" in ingot.TrainConfig.describe("datasets")
    with pytest.raises(ValueError, match="-1"):
        ingot.Trainer(ingot.TrainConfig(base_model=trained[1]["model"], learning_rate=-1))
