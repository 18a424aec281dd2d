#!/usr/bin/env python3
"""Makes tests/infer/goldens/sentences/<name>/: tiny models as sentence-transformers saves them, and their vectors.

Each folder is a model directory with golden.json: texts, and the vectors that encode() gives (`prompt_name` where one is
named). Made with sentence-transformers 6.2.0, transformers 5.23.0, torch 2.15.0:

    python3 tools/goldens/sentence_models.py [NAME...]
"""
import json
import pathlib
import shutil
import sys
import tempfile

import tokenizers
import torch
import transformers
from sentence_transformers import SentenceTransformer
from sentence_transformers.models import Dense, LayerNorm, Normalize, Pooling, Transformer

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "infer" / "goldens" / "sentences"
WORDS = "a cat sleeps stocks fell the sharply today on every market of world . : query document".split()
TEXTS = ["A cat sleeps.", "stocks fell", "stocks fell sharply today on every market of the world"]
WIDTH = 16


SIZES = dict(hidden_size=WIDTH, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24, max_position_embeddings=32)
DECODER = SIZES | dict(num_key_value_heads=1, head_dim=8, pad_token_id=0, bos_token_id=2, eos_token_id=3)
MODELS = {
    "bert": lambda **size: transformers.BertModel(transformers.BertConfig(**SIZES | dict(num_hidden_layers=1), **size)),
    "modernbert": lambda **size: transformers.ModernBertModel(transformers.ModernBertConfig(
        **SIZES, **size, local_attention=4, pad_token_id=0, bos_token_id=2, cls_token_id=2, eos_token_id=3, sep_token_id=3)),
    "nomic_bert": lambda **size: transformers.NomicBertModel(transformers.NomicBertConfig(**SIZES, **size)),
    "deberta_v2": lambda **size: transformers.DebertaV2Model(transformers.DebertaV2Config(
        **SIZES, **size, relative_attention=True, pos_att_type=["c2p", "p2c"], position_buckets=4, position_biased_input=False)),
    "embeddinggemma": lambda **size: transformers.Gemma3TextModel(transformers.Gemma3TextConfig(
        **DECODER, **size, use_bidirectional_attention=True, sliding_window=6, query_pre_attn_scalar=8,
        layer_types=["sliding_attention", "full_attention"])),
    "qwen3": lambda **size: transformers.Qwen3Model(transformers.Qwen3Config(**DECODER, **size)),
}


def encoder(folder: pathlib.Path, lowercase: bool = True, limit: int = 32, kind: str = "bert") -> None:
    torch.manual_seed(3)
    vocabulary = {w: i for i, w in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS, "A"])}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="[UNK]", pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]",
        model_max_length=limit).save_pretrained(folder)
    model = MODELS[kind](vocab_size=len(vocabulary))
    for p in model.parameters():
        torch.nn.init.normal_(p, std=0.4)
    model.save_pretrained(folder)


def make(name: str, modules, prompt_name=None, nested=False, lower=False, kind="bert", **options) -> None:
    if sys.argv[1:] and name not in sys.argv[1:]:
        return
    with tempfile.TemporaryDirectory() as base:
        encoder(pathlib.Path(base), lowercase=not lower, limit=options.pop("limit", 32), kind=kind)
        model = SentenceTransformer(modules=[Transformer(base, do_lower_case=lower), *modules], device="cpu", **options)
        for module in modules:
            for p in module.parameters():
                torch.nn.init.normal_(p, std=0.5)
        folder = OUT / name
        shutil.rmtree(folder, ignore_errors=True)
        model.save(str(folder), create_model_card=False)
    if nested:
        move_into(folder, "0_Transformer")
        model = SentenceTransformer(str(folder), device="cpu")
    vectors = model.encode(TEXTS, prompt_name=prompt_name, convert_to_numpy=True)
    golden = {"texts": TEXTS, "vectors": [[round(float(x), 7) for x in row] for row in vectors]}
    if prompt_name:
        golden["prompt_name"] = prompt_name
    (folder / "golden.json").write_text(json.dumps(golden) + "\n")


def move_into(folder: pathlib.Path, name: str) -> None:
    """The encoder into a directory of its own, as sentence-transformers before 3 saved it."""
    (folder / name).mkdir()
    modules = json.loads((folder / "modules.json").read_text())
    for path in list(folder.iterdir()):
        if path.is_file() and path.name not in ("modules.json", "config_sentence_transformers.json"):
            path.rename(folder / name / path.name)
    modules[0]["path"] = name
    (folder / "modules.json").write_text(json.dumps(modules))


PROMPTS = dict(prompts={"query": "query : ", "document": ""}, default_prompt_name="query")

if __name__ == "__main__":
    make("mode_string", [Pooling(WIDTH, "max")])
    make("several_modes", [Pooling(WIDTH, ("weightedmean", "lasttoken", "cls"))])
    make("dense", [Pooling(WIDTH, "mean"), Dense(WIDTH, 10, activation_function=torch.nn.Tanh()),
                   Dense(10, 6, bias=False, activation_function=torch.nn.GELU()), Normalize()])
    make("dense_residual", [Pooling(WIDTH, "mean"), Dense(WIDTH, 6, activation_function=torch.nn.Identity(),
                                                        use_residual=True)])
    make("layer_norm", [Pooling(WIDTH, "mean_sqrt_len_tokens"), LayerNorm(WIDTH)])
    make("default_prompt", [Pooling(WIDTH, "mean")], **PROMPTS)
    make("named_prompt", [Pooling(WIDTH, "weightedmean")], prompt_name="query", prompts=PROMPTS["prompts"])
    make("prompt_left_out", [Pooling(WIDTH, "mean", include_prompt=False)], **PROMPTS)
    make("nested", [Pooling(WIDTH, "cls"), Normalize()], nested=True)
    make("lower_case", [Pooling(WIDTH, "mean")], lower=True)
    make("limit_of_tokenizer", [Pooling(WIDTH, "mean")], limit=7)
    make("modernbert", [Pooling(WIDTH, "mean"), Normalize()], kind="modernbert")
    make("nomic_bert", [Pooling(WIDTH, "mean"), Normalize()], prompt_name="query", prompts=PROMPTS["prompts"], kind="nomic_bert")
    make("deberta_v2", [Pooling(WIDTH, "cls")], kind="deberta_v2")
    make("embeddinggemma", [Pooling(WIDTH, "mean"), Dense(WIDTH, 24, bias=False, activation_function=torch.nn.Identity()),
                            Dense(24, WIDTH, bias=False, activation_function=torch.nn.Identity()), Normalize()],
         prompt_name="document", prompts=PROMPTS["prompts"] | {"document": "document : "}, kind="embeddinggemma")
    make("qwen3_embedding", [Pooling(WIDTH, "lasttoken"), Normalize()], kind="qwen3")
