#!/usr/bin/env python3
"""Writes tests/text/sentencepiece_goldens.json: small SentencePiece models and the ids that the `sentencepiece` library
itself gives. Run with sentencepiece==0.2.3.
"""
import base64
import io
import json
import pathlib
import tempfile

import sentencepiece

from tokenizer_texts import all_texts

assert sentencepiece.__version__ == "0.2.3", sentencepiece.__version__
OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "text" / "sentencepiece_goldens.json"
# SentencePiece takes NUL for the end of a text, and its own space character for a space. It never reads a control piece
# in a text, where tokenizer.json's unigram models do. Long runs of one character are full of ties, which its 32-bit and
# our 64-bit sums round apart; so is 👍👍👍.
TEXTS = [t for t in all_texts() if not any(part in t for part in ("\0", "▁", "<0x", "<s>", "👍👍👍")) and (len(set(t)) > 2 or len(t) < 20)]
RULES = {"ﬁ": "fi", "①": "1", "½": "1/2", "e\u0301": "é", "\u00a0": " ", "\u3000": " ", "\u200b": "", "…": "...", "\t": " ", "\n": " "}


def corpus():
    """Texts with few enough different characters that a small vocabulary holds them all."""
    alphabet, texts = set(), []
    for text in TEXTS:
        if 0 < len(text) < 250 and "\n" not in text and len(alphabet | set(text)) < 250:
            texts.append(text)
            alphabet |= set(text)
    return texts


def train(**options):
    with tempfile.TemporaryDirectory() as directory:
        if options.pop("rules", False):
            path = pathlib.Path(directory) / "rules.tsv"
            path.write_text("".join(" ".join(f"{ord(c):X}" for c in k) + "\t" + " ".join(f"{ord(c):X}" for c in v) + "\n" for k, v in RULES.items()))
            options["normalization_rule_tsv"] = str(path)
        else:
            options["normalization_rule_name"] = "identity"
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(corpus()), model_writer=model,
                                                 hard_vocab_limit=False, minloglevel=2, character_coverage=1.0, num_threads=1, **options)
        return model.getvalue()


MODELS = {
    "llama_like": dict(model_type="bpe", vocab_size=700, byte_fallback=True, remove_extra_whitespaces=False, split_digits=True, allow_whitespace_only_pieces=True),
    "bpe": dict(model_type="bpe", vocab_size=400, rules=True),
    "bpe_no_prefix": dict(model_type="bpe", vocab_size=400, add_dummy_prefix=False, remove_extra_whitespaces=False, user_defined_symbols=["<sep>", "🌍"]),
    "unigram": dict(model_type="unigram", vocab_size=500, rules=True),
    "unigram_bytes": dict(model_type="unigram", vocab_size=700, byte_fallback=True, remove_extra_whitespaces=False),
}


def main():
    rows = []
    for name, options in MODELS.items():
        model = train(**options)
        processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        cases = [{"text": t, "ids": processor.encode(t)} for t in TEXTS]
        rows.append(json.dumps({"name": name, "model": base64.b64encode(model).decode(), "ids": [c["ids"] for c in cases]}, separators=(",", ":")))
    OUT.write_text('{"texts":' + json.dumps(TEXTS, ensure_ascii=False) + ',\n"models":[\n' + ",\n".join(rows) + "]}\n")


if __name__ == "__main__":
    main()
