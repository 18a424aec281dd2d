#!/usr/bin/env python3
"""Writes tests/text/goldens/*.json: what the `tokenizers` library makes of tokenizer_texts.py.

Run with tokenizers==0.23.3:  tools/goldens/tokenizer_goldens.py [GPT2_DIRECTORY]
GPT2_DIRECTORY holds vocab.json and merges.txt; without it gpt2.json is left as it is.
"""
import json
import os
import pathlib
import sys

import tokenizers
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from tokenizer_texts import all_texts

assert tokenizers.__version__ == "0.23.3", tokenizers.__version__
os.environ["TOKENIZERS_PARALLELISM"] = "false"
OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "text" / "goldens"


def cases(tokenizer, texts):
    for text in texts:
        plain = tokenizer.encode(text, add_special_tokens=False).ids
        full = tokenizer.encode(text).ids
        case = {"text": text, "ids": plain}
        if full != plain:
            case["with_special"] = full
        decoded = tokenizer.decode(full, skip_special_tokens=False)
        if decoded != text:
            case["decoded"] = decoded
        skipped = tokenizer.decode(full, skip_special_tokens=True)
        if skipped != decoded:
            case["decoded_skipping"] = skipped
        yield case


def write(name, tokenizer, texts, keep_tokenizer=True):
    golden = {"made_with": f"tokenizers {tokenizers.__version__}"}
    if keep_tokenizer:
        golden["tokenizer"] = json.loads(tokenizer.to_str())
    head = json.dumps(golden, ensure_ascii=True)[:-1]
    lines = ",\n".join(json.dumps(c, ensure_ascii=True) for c in cases(tokenizer, texts))
    (OUT / f"{name}.json").write_text(f'{head}, "cases": [\n{lines}\n]}}\n')


def byte_level(tokenizer):
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def trained_bpe(texts):
    tokenizer = byte_level(Tokenizer(models.BPE()))
    trainer = trainers.BpeTrainer(vocab_size=700, min_frequency=0, special_tokens=["<|endoftext|>"], show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def gpt2(directory):
    model = models.BPE.from_file(f"{directory}/vocab.json", f"{directory}/merges.txt")
    tokenizer = byte_level(Tokenizer(model))
    tokenizer.add_special_tokens([AddedToken("<|endoftext|>", normalized=False, special=True)])
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=True)
    return tokenizer


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    texts = all_texts()
    write("bpe_trained", trained_bpe(texts), texts)
    if len(sys.argv) > 1:
        write("gpt2", gpt2(sys.argv[1]), texts, keep_tokenizer=False)


if __name__ == "__main__":
    main()
