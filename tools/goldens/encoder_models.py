#!/usr/bin/env python3
"""Makes the encoders of tests/models/goldens: tiny random BERTs and their kin, with what transformers computes.

Each folder holds config.json and model.safetensors, and expected.safetensors: `tokens`, `token_types` [2, T], `lengths`
[2] (the rest of a row is padding), `hidden` [2, T, width], `pooled` [2, width] or `logits` ([2, T, vocab], or of labels:
[2, labels] or [2, T, labels]) with `targets`, a loss and the gradient of every parameter (`grad.<name>`). Without a head
the loss is the mean square of `pooled`, with one label the mean of `logits`.

    python3 tools/goldens/encoder_models.py [NAME...]
"""
import pathlib
import sys

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


def make(name: str, kind: type, config: transformers.PreTrainedConfig, legacy: bool = False) -> None:
    torch.manual_seed(sum(name.encode()))
    model = kind._from_config(config, attn_implementation="eager").float()
    randomise(model)
    folder = OUT / name
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
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
    else:
        expected["pooled"] = out.pooler_output.detach()
        loss = out.pooler_output.square().mean()
    loss.backward()
    expected["loss"] = loss.detach().reshape(1)
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
CASES = {
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
for case, arguments in CASES.items():
    if len(sys.argv) == 1 or case in sys.argv[1:]:
        make(case, *arguments)
