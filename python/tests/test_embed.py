"""Sentence vectors: of a sentence-transformers directory, and of a language model that also writes."""

import json
import shutil
import subprocess

import numpy as np
import pytest

import ingot

TEXTS = ["A cat sat on the mat.", "Nobody knew why.", "The moon"]


@pytest.fixture(scope="module")
def sentence_model(trained, tmp_path_factory):
    """The trained model as sentence-transformers would save it: the last token, length 1, a prompt for queries."""
    place = tmp_path_factory.mktemp("sentences") / "model"
    shutil.copytree(trained[1]["model"], place)
    kinds = ["Transformer", "Pooling", "Normalize"]
    paths = ["", "1_Pooling", "2_Normalize"]
    modules = [{"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"} for i, (kind, path) in enumerate(zip(kinds, paths, strict=True))]
    (place / "modules.json").write_text(json.dumps(modules))
    (place / "1_Pooling").mkdir()
    (place / "1_Pooling" / "config.json").write_text(json.dumps({"word_embedding_dimension": 32, "pooling_mode_lasttoken": True, "pooling_mode_mean_tokens": False}))
    prompts = {"prompts": {"query": "Find: ", "document": ""}, "default_prompt_name": "query"}
    (place / "config_sentence_transformers.json").write_text(json.dumps(prompts))
    return place


def test_a_language_model_embeds_texts_in_one_batch_as_one_by_one(llm):
    vectors = llm.embed(TEXTS)
    assert vectors.shape == (3, 32) and vectors.dtype == ingot.float32
    for text, vector in zip(TEXTS, np.asarray(vectors), strict=True):
        np.testing.assert_allclose(np.asarray(llm.embed(text)), vector, rtol=1e-5, atol=1e-6)


def test_vectors_are_the_commands(sentence_model, tmp_path):
    out = tmp_path / "vectors.npy"
    arguments = [argument for text in TEXTS for argument in ("-t", text)]
    subprocess.run(["ingot", "embed", sentence_model, *arguments, "--prompt-name", "document", "--dimensions", "8", "-o", out], check=True, capture_output=True)
    for model in (ingot.LLM(sentence_model), ingot.Embedder(sentence_model)):
        np.testing.assert_array_equal(np.asarray(model.embed(TEXTS, prompt_name="document", dimensions=8)), np.load(out))


def test_prompts_stand_before_texts(sentence_model):
    model = ingot.Embedder(sentence_model)
    assert model.prompts == {"query": "Find: ", "document": ""}
    as_written = np.asarray(model.embed(["Find: " + text for text in TEXTS], prompt=""))
    for how in ({}, {"prompt_name": "query"}, {"prompt": "Find: "}):  # the model's default prompt is "query"
        np.testing.assert_array_equal(np.asarray(model.embed(TEXTS, **how)), as_written)
    with pytest.raises(ingot.errors.InvalidConfig, match="document, query"):
        model.embed(TEXTS, prompt_name="passage")
    with pytest.raises(ingot.errors.InvalidConfig, match="give one of them"):
        model.embed(TEXTS, prompt_name="query", prompt="x")


def test_normalized_vectors_have_length_one_also_when_cut(llm):
    raw = np.asarray(llm.embed(TEXTS, dimensions=8))
    lengths = np.linalg.norm(raw, axis=1, keepdims=True)
    assert (abs(lengths - 1) > 1e-3).all()
    np.testing.assert_allclose(np.asarray(llm.embed(TEXTS, dimensions=8, normalize=True)), raw / lengths, rtol=1e-5)
    with pytest.raises(ingot.errors.InvalidConfig, match="from 1 to the model's 32"):
        llm.embed(TEXTS, dimensions=33)


def test_a_closed_model_embeds_nothing(trained):
    llm = ingot.LLM(trained[1]["model"])
    llm.embed("A cat")
    llm.close()
    with pytest.raises(ingot.errors.Error, match="closed"):
        llm.embed("A cat")


def test_a_gguf_file_embeds_as_its_directory(trained, tmp_path):
    ingot.convert(trained[1]["model"], tmp_path / "model.gguf")
    expected = np.asarray(ingot.LLM(trained[1]["model"]).embed(TEXTS))
    np.testing.assert_allclose(np.asarray(ingot.LLM(tmp_path / "model.gguf").embed(TEXTS)), expected, rtol=1e-4, atol=1e-5)


def test_a_text_without_tokens_is_named_by_its_number_among_all(llm):
    with pytest.raises(ingot.errors.DimensionMismatch, match="text 1100 has 0 tokens"):
        llm.embed(["A cat"] * 1100 + [""])
