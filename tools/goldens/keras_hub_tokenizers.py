#!/usr/bin/env python3
"""Makes tests/text/goldens/keras_hub/*: small tokenizers as Keras-Hub saves them in presets, and the ids that it gives.

Needs an environment of its own (made with keras 3.15.1, keras-hub 0.32.0, torch 2.15, tokenizers 0.23.3, sentencepiece
0.2.3, without TensorFlow). Run from the repository's root:
    KERAS_BACKEND=torch python3 tools/goldens/keras_hub_tokenizers.py

Without TensorFlow Keras-Hub cuts every byte-level model's text with Llama 3's pattern; GPT-2 was trained with its own, which
Ingot uses. The texts for it are such that both cut them alike.
"""
import io
import json
import os
import pathlib
import shutil

os.environ["KERAS_BACKEND"] = "torch"
import keras_hub
import sentencepiece
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

OUT = pathlib.Path("tests/text/goldens/keras_hub")
TEXTS = ["Hello world, it's 2026!", "", "  two  spaces ", "Crème brûlée, naïve café", "unaffable ÅNGSTRÖM", "你好 world",
         "a-b_c^d$e", "tab\tand\nline", "zero\u200bwidth", "don't we're", "日本語のテキスト", "[CLS] <|endoftext|> </s>"]
CORPUS = [t for t in TEXTS for _ in range(3)] + ["the low lower lowest newer newest words were in the world"] * 5


def save(name, tokenizer, texts):
    folder = OUT / name
    shutil.rmtree(folder, ignore_errors=True)
    tokenizer.save_to_preset(str(folder))
    cases = [{"text": text, "ids": [int(i) for i in tokenizer(text)]} for text in texts]
    (folder / "expected.json").write_text("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")


def byte_pairs():
    model = Tokenizer(models.BPE())
    model.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    model.train_from_iterator(CORPUS, trainers.BpeTrainer(
        vocab_size=320, special_tokens=["<|endoftext|>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False))
    saved = json.loads(model.to_str())["model"]
    merges = [" ".join(pair) for pair in saved["merges"]]
    alike = [t for t in TEXTS if "2026" not in t and "\n" not in t and "[CLS]" not in t and "-b_" not in t and "\u200b" not in t]
    save("gpt2", keras_hub.tokenizers.GPT2Tokenizer(vocabulary=saved["vocab"], merges=merges), alike + ["x <|endoftext|>y"])


def word_pieces():
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    letters = sorted({c for t in CORPUS for c in t.lower() if not c.isspace()} - {"\u200b", "語"} | set("abcdefghijklmnopqrstuvwxyzHCÅ"))
    pieces += letters + ["##" + c for c in letters if c.isalnum()] + ["hello", "world", "##aff", "un", "creme", "##est"]
    plain = [t for t in TEXTS if "[CLS]" not in t]
    for name, settings in {"bert": dict(lowercase=True), "bert_cased": dict(lowercase=False),
                           "bert_accents": dict(lowercase=True, strip_accents=True)}.items():
        save(name, keras_hub.tokenizers.BertTokenizer(vocabulary=pieces, **settings), plain)


def sentence_pieces():
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(CORPUS * 3), model_writer=model, vocab_size=90, model_type="unigram", pad_id=0, eos_id=1,
        unk_id=2, bos_id=-1, minloglevel=2, hard_vocab_limit=False, normalization_rule_name="identity")
    save("t5", keras_hub.tokenizers.T5Tokenizer(proto=model.getvalue()), TEXTS[:-1])


byte_pairs()
word_pieces()
sentence_pieces()
