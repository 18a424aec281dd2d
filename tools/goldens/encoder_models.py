#!/usr/bin/env python3
"""Makes the encoders of tests/models/goldens: tiny random BERTs and their kin, with what transformers computes.

Each folder holds config.json and model.safetensors, and expected.safetensors: `tokens`, `token_types` [2, T], `lengths`
[2] (the rest of a row is padding), `hidden` [2, T, width], `pooled` [2, width] or `logits` ([2, T, vocab], or of labels:
[2, labels] or [2, T, labels]) with `targets`, a loss and the gradient of every parameter (`grad.<name>`). Without a head
the loss is the mean square of `pooled`, with one label the mean of `logits`.

    python3 tools/goldens/encoder_models.py [NAME...]

Random configurations, drawn from the whole option space of each family that RANDOM names, go to another folder, where
tests/models looks, too; the committed sample is `--random 1 --out tests/models/goldens/random_encoders`:

    python3 tools/goldens/encoder_models.py --random 20 --out /tmp/encoders [FAMILY...]
    INGOT_RANDOM_ENCODERS=/tmp/encoders build/tests/models_tests --gtest_filter='Random/GoldenBert*'
"""
import argparse
import json
import pathlib
import random
import sys
import tempfile

import torch
import transformers
from safetensors.torch import load_file, save_file

OUT = pathlib.Path("tests/models/goldens")
T, VOCAB = 19, 67
LENGTHS = [19, 12]


def randomise(model: torch.nn.Module) -> None:
    for name, p in model.named_parameters():
        around = 1.0 if "norm.weight" in name.lower() else 0.0
        torch.nn.init.normal_(p, mean=around, std=0.2)


def stored_gradients(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Under the names of checkpoints, where transformers' own differ: the gradients saved as weights."""
    with tempfile.TemporaryDirectory() as folder:
        for p in model.parameters():
            p.data = p.grad
        model.save_pretrained(folder)
        return load_file(f"{folder}/model.safetensors")


def make(name: str, kind: type, config: transformers.PreTrainedConfig, legacy: bool = False, out: pathlib.Path = OUT) -> None:
    torch.manual_seed(sum(name.encode()))
    model = kind._from_config(config, attn_implementation="eager").float().eval()
    randomise(model)
    folder = out / name
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    if name == "nomic_bert_release":  # as nomic-ai's releases call them
        c = config
        release = dict(architectures=["NomicBertModel"], model_type="nomic_bert", vocab_size=c.vocab_size, n_embd=c.hidden_size,
                       n_inner=c.intermediate_size, n_layer=c.num_hidden_layers, n_head=c.num_attention_heads,
                       n_positions=c.max_position_embeddings, layer_norm_epsilon=c.layer_norm_eps, rotary_emb_base=1000,
                       rotary_emb_fraction=1.0, rotary_emb_interleaved=False, rotary_emb_scale_base=None, qkv_proj_bias=False,
                       mlp_fc1_bias=False, mlp_fc2_bias=False, prenorm=False, use_rms_norm=False, causal=False,
                       parallel_block=False, activation_function="swiglu", type_vocab_size=c.type_vocab_size)
        (folder / "config.json").write_text(json.dumps(release, indent=2) + "\n")
    if legacy:  # as the files of 2018 call them
        old = {k.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): v
               for k, v in load_file(folder / "model.safetensors").items()}
        save_file(old, folder / "model.safetensors", metadata={"format": "pt"})
    # Not the padding token: PyTorch drops its row's gradient, and RoBERTa counts positions without it.
    types = getattr(config, "type_vocab_size", 0)  # DistilBERT has none
    tokens = torch.randint(config.pad_token_id + 1, VOCAB, (2, T))
    token_types = torch.randint(0, types, (2, T)) if types else torch.zeros(2, T, dtype=torch.long)
    mask = (torch.arange(T)[None] < torch.tensor(LENGTHS)[:, None]).long()
    more = dict(token_type_ids=token_types) if types else {}
    out = model(tokens, attention_mask=mask, output_hidden_states=True, **more)
    expected = {"tokens": tokens, "token_types": token_types, "lengths": torch.tensor(LENGTHS, dtype=torch.int32),
                "hidden": out.hidden_states[-1].detach()}
    if "logits" in out:
        classes, of_texts = out.logits.shape[-1], out.logits.dim() == 2
        if of_texts:
            targets = torch.randint(0, classes, (2,))
        else:
            targets = torch.where((torch.rand(2, T) < 0.4) & (mask == 1), torch.randint(0, classes, (2, T)), -100)
        expected |= {"logits": out.logits.detach(), "targets": targets}
        loss = (out.logits.mean() if classes == 1 else
                torch.nn.functional.cross_entropy(out.logits.reshape(-1, classes), targets.flatten(), ignore_index=-100))
    elif getattr(out, "pooler_output", None) is not None:
        expected["pooled"] = out.pooler_output.detach()
        loss = out.pooler_output.square().mean()
    else:  # of the tokens that are there
        loss = (out.last_hidden_state * mask[..., None]).square().mean()
    loss.backward()
    expected["loss"] = loss.detach().reshape(1)
    if config.model_type == "nomic_bert":
        expected |= {"grad." + parameter: gradient for parameter, gradient in stored_gradients(model).items()}
        save_file({k: v.contiguous() for k, v in expected.items()}, folder / "expected.safetensors")
        return
    words = model.get_input_embeddings().weight  # tied to the head; some classes name it there
    name_of_words = next(k for k, v in model.named_parameters(remove_duplicate=False) if v is words and "embed" in k)
    for parameter, p in model.named_parameters():
        if p.grad is not None:
            parameter = name_of_words if p is words else parameter.replace(".decoder.bias", ".bias")
            expected["grad." + parameter] = p.grad.clone()
    save_file({k: v.contiguous() for k, v in expected.items()}, folder / "expected.safetensors")


COMMON = dict(vocab_size=VOCAB, hidden_size=24, num_hidden_layers=2, max_position_embeddings=32,
              hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
ROBERTA = COMMON | dict(num_attention_heads=3, intermediate_size=44, pad_token_id=1, bos_token_id=0, eos_token_id=2)
LABELS = dict(id2label={0: "low", 1: "middle", 2: "high"})
NAMES = dict(id2label={0: "O", 1: "B-PER", 2: "I-PER", 3: "B-LOC"})
BERT = COMMON | dict(num_attention_heads=3, intermediate_size=44)
ELECTRA = BERT | dict(embedding_size=16)
MODERN = dict(vocab_size=VOCAB, hidden_size=24, num_hidden_layers=3, num_attention_heads=3, intermediate_size=20,
              max_position_embeddings=32, pad_token_id=0, bos_token_id=1, cls_token_id=1, sep_token_id=2, eos_token_id=2,
              local_attention=6)
NOMIC = dict(vocab_size=VOCAB, hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=20,
             max_position_embeddings=32)
DEBERTA = BERT | dict(type_vocab_size=0, relative_attention=True, pos_att_type=["p2c", "c2p"], position_buckets=4,
                      max_relative_positions=16, position_biased_input=False, norm_rel_ebd="layer_norm", share_att_key=True)
CASES = {
    "embeddinggemma": (transformers.Gemma3TextModel,
                       transformers.Gemma3TextConfig(vocab_size=VOCAB, hidden_size=24, num_hidden_layers=3, num_attention_heads=2,
                                                     num_key_value_heads=1, head_dim=8, intermediate_size=20, pad_token_id=0,
                                                     max_position_embeddings=32, sliding_window=6, query_pre_attn_scalar=8,
                                                     use_bidirectional_attention=True, bos_token_id=1, eos_token_id=2,
                                                     layer_types=["sliding_attention", "full_attention", "sliding_attention"]),
                       False),
    "deberta_v2_classifier": (transformers.DebertaV2ForSequenceClassification,
                              transformers.DebertaV2Config(**DEBERTA, **LABELS, pooler_hidden_act="gelu"), False),
    "deberta_v2_masked_lm": (transformers.DebertaV2ForMaskedLM,
                             transformers.DebertaV2Config(**DEBERTA | dict(share_att_key=False), conv_kernel_size=3), False),
    "modernbert_masked_lm": (transformers.ModernBertForMaskedLM, transformers.ModernBertConfig(**MODERN), False),
    "modernbert_classifier": (transformers.ModernBertForSequenceClassification,
                              transformers.ModernBertConfig(**MODERN, **LABELS, classifier_pooling="mean", norm_bias=True,
                                                            classifier_bias=True), False),
    "nomic_bert_masked_lm": (transformers.NomicBertForMaskedLM, transformers.NomicBertConfig(**NOMIC), False),
    "nomic_bert_release": (transformers.NomicBertModel, transformers.NomicBertConfig(**NOMIC), False),
    "bert_classifier": (transformers.BertForSequenceClassification, transformers.BertConfig(**BERT, **LABELS), False),
    "bert_names": (transformers.BertForTokenClassification, transformers.BertConfig(**BERT, **NAMES), False),
    "xlm_roberta_reranker": (transformers.XLMRobertaForSequenceClassification,
                             transformers.XLMRobertaConfig(**ROBERTA, num_labels=1), False),
    "distilbert_classifier": (transformers.DistilBertForSequenceClassification,
                              transformers.DistilBertConfig(vocab_size=VOCAB, dim=24, n_layers=1, n_heads=3,
                                                            hidden_dim=44, max_position_embeddings=32, dropout=0.0,
                                                            attention_dropout=0.0, seq_classif_dropout=0.0), False),
    "electra_masked_lm": (transformers.ElectraForMaskedLM, transformers.ElectraConfig(**ELECTRA), False),
    "electra_classifier": (transformers.ElectraForSequenceClassification,
                           transformers.ElectraConfig(**ELECTRA, **LABELS), False),
    "albert_masked_lm": (transformers.AlbertForMaskedLM,
                         transformers.AlbertConfig(**ELECTRA | dict(num_hidden_layers=4), num_hidden_groups=2), False),
    "albert_classifier": (transformers.AlbertForSequenceClassification,
                          transformers.AlbertConfig(**ELECTRA, classifier_dropout_prob=0.0), False),
    "mpnet_masked_lm": (transformers.MPNetForMaskedLM, transformers.MPNetConfig(**ROBERTA), False),
    "mpnet": (transformers.MPNetModel, transformers.MPNetConfig(**ROBERTA), False),
    "mpnet_classifier": (transformers.MPNetForSequenceClassification,
                         transformers.MPNetConfig(**ROBERTA, **LABELS), False),
    "bert_masked_lm": (transformers.BertForMaskedLM, transformers.BertConfig(**BERT), False),
    "bert_legacy": (transformers.BertModel,
                    transformers.BertConfig(**COMMON, num_attention_heads=4, intermediate_size=31, hidden_act="gelu_new",
                                            type_vocab_size=3), True),
    "roberta_masked_lm": (transformers.RobertaForMaskedLM, transformers.RobertaConfig(**ROBERTA, type_vocab_size=1), False),
    "xlm_roberta": (transformers.XLMRobertaModel, transformers.XLMRobertaConfig(**ROBERTA, layer_norm_eps=1e-5), False),
    "camembert_masked_lm": (transformers.CamembertForMaskedLM,
                            transformers.CamembertConfig(**ROBERTA, hidden_act="gelu_new"), False),
    "distilbert_masked_lm": (transformers.DistilBertForMaskedLM,
                             transformers.DistilBertConfig(vocab_size=VOCAB, dim=24, n_layers=2, n_heads=3, hidden_dim=44,
                                                           max_position_embeddings=32, dropout=0.0,
                                                           attention_dropout=0.0), False),
}


class Draw(random.Random):
    """Options of one configuration."""

    def maybe(self) -> bool:
        return self.random() < 0.5

    def head(self, stem: str, *more: str) -> tuple[type, dict]:
        """A class of transformers and its labels."""
        kind = self.choice(["ForMaskedLM", "ForSequenceClassification", "ForTokenClassification", *more])
        labels = self.choice([dict(num_labels=1), LABELS]) if "Sequence" in kind else NAMES if "Token" in kind else {}
        return getattr(transformers, stem + kind), labels

    def sizes(self) -> dict:
        heads = self.choice([1, 2, 3])
        return dict(vocab_size=VOCAB, num_attention_heads=heads, hidden_size=heads * self.choice([4, 6, 8]),
                    num_hidden_layers=self.choice([1, 2, 4]), intermediate_size=self.choice([13, 20]), max_position_embeddings=32,
                    pad_token_id=0, bos_token_id=1, eos_token_id=2)

    def rope(self) -> dict:
        kind = self.choice([dict(rope_type="default"), dict(rope_type="linear", factor=2.0), dict(rope_type="dynamic", factor=2.0),
                            dict(rope_type="yarn", factor=2.0, original_max_position_embeddings=16)])
        return kind | dict(rope_theta=self.choice([100.0, 10000.0]))


def modernbert(d: Draw):
    kind, labels = d.head("ModernBert", "Model")
    c = d.sizes()
    rope = dict(full_attention=d.rope(), sliding_attention=dict(rope_type="default", rope_theta=d.choice([50.0, 10000.0])))
    types = [d.choice(["sliding_attention", "full_attention"]) for _ in range(c["num_hidden_layers"])]
    return kind, transformers.ModernBertConfig(
        **c, **labels, layer_types=types, rope_parameters=rope, local_attention=d.choice([1, 4, 7, 128]),
        hidden_activation=d.choice(["gelu", "silu", "gelu_pytorch_tanh", "relu"]), norm_bias=d.maybe(), attention_bias=d.maybe(),
        mlp_bias=d.maybe(), decoder_bias=d.maybe(), classifier_bias=d.maybe(), norm_eps=d.choice([1e-5, 1e-3]),
        classifier_pooling=d.choice(["cls", "mean"]), classifier_activation=d.choice(["gelu", "tanh"]), cls_token_id=1, sep_token_id=2)


def nomic_bert(d: Draw):
    kind, labels = d.head("NomicBert", "Model")
    return kind, transformers.NomicBertConfig(
        **d.sizes(), **labels, rope_parameters=d.rope(), hidden_act=d.choice(["silu", "gelu", "relu"]),
        head_dim=d.choice([None, 4, 10]), type_vocab_size=d.choice([1, 2]), layer_norm_eps=d.choice([1e-12, 1e-3]))


def deberta_v2(d: Draw):
    kind, labels = d.head("DebertaV2", "Model")
    c = d.sizes()
    convolution = dict(conv_kernel_size=d.choice([1, 3, 5]), conv_groups=d.choice([1, 2]), conv_act=d.choice(["tanh", "gelu"]))
    return kind, transformers.DebertaV2Config(
        **c, **labels, **(convolution if d.maybe() else {}), relative_attention=d.random() < 0.8,
        pos_att_type=d.choice([None, ["c2p"], ["p2c"], ["p2c", "c2p"], "c2p|p2c"]), share_att_key=d.maybe(),
        position_buckets=d.choice([-1, 2, 4, 8]), max_relative_positions=d.choice([-1, 12, 16]), position_biased_input=d.maybe(),
        norm_rel_ebd=d.choice(["none", "layer_norm"]), type_vocab_size=d.choice([0, 2]), hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0, pooler_hidden_act=d.choice(["gelu", "tanh"]), legacy=d.maybe(),
        hidden_act=d.choice(["gelu", "relu"]), layer_norm_eps=d.choice([1e-7, 1e-3]))


RANDOM = [modernbert, nomic_bert, deberta_v2]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--random", type=int, default=0)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("names", nargs="*", metavar="NAME")
    options = parser.parse_args()
    if not options.random:
        for case, arguments in CASES.items():
            if not options.names or case in options.names:
                make(case, *arguments)
        return
    if options.out is None:
        sys.exit("--random needs --out")
    for family in RANDOM:
        for seed in range(options.random):
            if not options.names or family.__name__ in options.names:
                make(f"{family.__name__}_{seed}", *family(Draw(f"{family.__name__} {seed}")), out=options.out)


if __name__ == "__main__":
    main()
