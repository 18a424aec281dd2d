#!/usr/bin/env python3
"""Makes tests/models/goldens/tf_*: tiny random BERT and GPT-2 models as TensorFlow programs save them.

    tf_bert, tf_gpt2    transformers' TF classes (tf_model.h5), with what they compute: expected.safetensors
    tf_google_bert      the same BERT as google-research/bert stores it (bert_model.ckpt)
    tf_openai_gpt2      the same GPT-2 as openai/gpt-2 stores it (model.ckpt)

Needs an environment of its own: tensorflow-cpu 2.18, tf-keras 2.18, transformers 4.49, safetensors.
Run from the repository's root:
    python3 tools/goldens/tensorflow_models.py
"""
import json
import os
import pathlib
import re

os.environ["TF_USE_LEGACY_KERAS"] = "1"
import numpy
import tensorflow as tf
import transformers
from safetensors.numpy import save_file

OUT = pathlib.Path("tests/models/goldens")
TOKENS = numpy.random.default_rng(1).integers(0, 53, (2, 11))
BERT = transformers.BertConfig(vocab_size=53, hidden_size=12, num_hidden_layers=2, num_attention_heads=3,
                               intermediate_size=20, max_position_embeddings=16, type_vocab_size=2,
                               hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
GPT2 = transformers.GPT2Config(vocab_size=53, n_embd=12, n_layer=2, n_head=3, n_positions=16, bos_token_id=0,
                               eos_token_id=0, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)


def randomised(model):
    model(TOKENS)
    random = numpy.random.default_rng(2)
    model.set_weights([random.normal(0, 0.3, w.shape).astype("float32") for w in model.weights])
    return model


def save(model, name, outputs):
    folder = OUT / name
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    save_file({"tokens": TOKENS.astype("int64")} | {k: v.numpy() for k, v in outputs.items()},
              folder / "expected.safetensors")


def save_bundle(variables, path):
    """What a Saver of TensorFlow 1 writes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        made = [tf.compat.v1.get_variable(name, initializer=value) for name, value in variables.items()]
        session.run([v.initializer for v in made])
        tf.compat.v1.train.Saver(made).save(session, str(path), write_meta_graph=False)
    (path.parent / "checkpoint").unlink()


def google_name(name):
    """tf_bert_for_pre_training/bert/encoder/layer_._0/output/dense/kernel:0 -> bert/encoder/layer_0/output/..."""
    name = re.sub(r"[^/]*___", "", name.split("/", 1)[1].removesuffix(":0")).replace("_._", "_")
    name = re.sub(r"(_embeddings)/(weight|embeddings)$", r"\1", name)
    return name.replace("cls/predictions/bias", "cls/predictions/output_bias")


def google(model):
    variables = {google_name(w.name): w.numpy() for w in model.weights if "seq_relationship" not in w.name}
    kernel, = [w.numpy() for w in model.weights if "seq_relationship/kernel" in w.name]
    variables["cls/seq_relationship/output_weights"] = kernel.T
    variables["cls/seq_relationship/output_bias"] = numpy.zeros(2, "float32")
    variables["bert/pooler/dense/kernel/adam_m"] = numpy.zeros((12, 12), "float32")
    variables["global_step"] = numpy.int64(1000)
    save_bundle(variables, OUT / "tf_google_bert" / "bert_model.ckpt")
    config = {k: v for k, v in BERT.to_dict().items() if k in (
        "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "hidden_act",
        "max_position_embeddings", "type_vocab_size", "initializer_range")}
    (OUT / "tf_google_bert" / "bert_config.json").write_text(json.dumps(config, indent=2) + "\n")


def openai(model):
    variables = {}
    for weight in model.weights:
        name = weight.name.split("/", 2)[2].removesuffix(":0").replace("h_._", "h")
        value = weight.numpy()
        name = re.sub(r"^(wte|wpe)/.*", r"\1", name)
        name = name.replace("gamma", "g").replace("beta", "b").replace("/bias", "/b")
        if name.endswith("/weight"):
            name, value = name.removesuffix("eight"), value[None]
        variables["model/" + name] = value.squeeze() if name.endswith("/b") else value
    save_bundle(variables, OUT / "tf_openai_gpt2" / "model.ckpt")
    (OUT / "tf_openai_gpt2" / "config.json").write_text((OUT / "tf_gpt2" / "config.json").read_text())


bert = randomised(transformers.TFBertForPreTraining(BERT))
result = bert(TOKENS)
save(bert, "tf_bert", {"logits": result.prediction_logits})
google(bert)
gpt2 = randomised(transformers.TFGPT2LMHeadModel(GPT2))
save(gpt2, "tf_gpt2", {"logits": gpt2(TOKENS).logits})
openai(gpt2)
