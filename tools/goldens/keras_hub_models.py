#!/usr/bin/env python3
"""Makes tests/models/goldens/keras_hub_*: tiny random BERT and GPT-2 presets as Keras-Hub saves them.

Beside each, what it computes: expected.safetensors. Needs an environment of its own (made with keras 3.15.1, keras-hub
0.32.0, torch 2.15, h5py 3.16, safetensors). Run from the repository's root:
    KERAS_BACKEND=torch python3 tools/goldens/keras_hub_models.py
"""
import os
import pathlib

os.environ["KERAS_BACKEND"] = "torch"
import keras_hub
import numpy
from safetensors.numpy import save_file

OUT = pathlib.Path("tests/models/goldens")
SIZES = {"vocabulary_size": 53, "num_layers": 2, "num_heads": 3, "hidden_dim": 12, "intermediate_dim": 20,
         "max_sequence_length": 16, "dropout": 0.0}
RANDOM = numpy.random.default_rng(3)
TOKENS = RANDOM.integers(0, 53, (2, 11))
SEGMENTS = (numpy.arange(11) >= 6).astype("int64")[None].repeat(2, 0)


def randomised(model):
    model.set_weights([RANDOM.normal(0, 0.3, w.shape).astype("float32") for w in model.weights])
    return model


def save(model, name, expected):
    folder = OUT / name
    model.save_to_preset(str(folder))
    (folder / "metadata.json").unlink()
    arrays = {"tokens": TOKENS} | {k: v.detach().cpu().numpy() for k, v in expected.items()}
    save_file({k: numpy.ascontiguousarray(v) for k, v in arrays.items()}, folder / "expected.safetensors")


bert = randomised(keras_hub.models.BertBackbone(**SIZES))
result = bert({"token_ids": TOKENS, "segment_ids": SEGMENTS, "padding_mask": numpy.ones_like(TOKENS)})
save(bert, "keras_hub_bert", {"hidden": result["sequence_output"], "pooled": result["pooled_output"]})
gpt2 = randomised(keras_hub.models.GPT2Backbone(**SIZES))
hidden = gpt2({"token_ids": TOKENS, "padding_mask": numpy.ones_like(TOKENS)})
save(gpt2, "keras_hub_gpt2", {"logits": gpt2.token_embedding(hidden, reverse=True)})
