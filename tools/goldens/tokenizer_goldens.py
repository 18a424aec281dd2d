#!/usr/bin/env python3
"""Writes tests/text/goldens/*.json: what the `tokenizers` library makes of tokenizer_texts.py.

Run with tokenizers==0.23.3 and sentencepiece==0.2.3:  tools/goldens/tokenizer_goldens.py [GPT2_DIRECTORY]
GPT2_DIRECTORY holds vocab.json and merges.txt; without it gpt2.json is left as it is.

Each family is a small tokenizer trained here with the stages of the real one, so that every stage is exercised
without anyone's vocabulary in the tree. texts.json holds the texts, the other files ids by index.
"""
import io
import json
import os
import pathlib
import sys
import tempfile

import sentencepiece
import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from tokenizer_texts import all_texts

assert tokenizers.__version__ == "0.23.3", tokenizers.__version__
assert sentencepiece.__version__ == "0.2.3", sentencepiece.__version__
os.environ["TOKENIZERS_PARALLELISM"] = "false"
OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "text" / "goldens"
TEXTS = all_texts()
CORPUS = [t for t in TEXTS if len(t) < 250]

# The patterns of real tokenizer.json files.
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
TEKKEN = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|"
          r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|"
          r"\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
GPT4O = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
DEEPSEEK3 = [r"\p{N}{1,3}", r"[一-龥぀-ゟ゠-ヿ]+",
             r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"""]
CLIP = r"""'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"""
BYTES = [f"<0x{b:02X}>" for b in range(256)]


def special(content, **options):
    return AddedToken(content, special=True, normalized=options.pop("normalized", False), **options)


def byte_bpe(pre_tokenizer, texts=None, size=500, **model):
    """A byte-level BPE model; `model` are options that do not change what is learnt."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizer
    trainer = trainers.BpeTrainer(vocab_size=size, min_frequency=0, show_progress=False,
                                  special_tokens=["<|endoftext|>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(texts or CORPUS, trainer)
    for name, value in model.items():
        setattr(tokenizer.model, name, value)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def split_then_bytes(*patterns):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(p), "isolated") for p in patterns] +
                                   [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def fallback_bpe(normalizer, pre_tokenizer, size=700):
    """A SentencePiece-like BPE model with bytes for what it does not know."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizer
    trainer = trainers.BpeTrainer(vocab_size=size, show_progress=False, limit_alphabet=120, min_frequency=0,
                                  special_tokens=["<unk>", "<s>", "</s>"] + BYTES, max_token_length=16)
    tokenizer.train_from_iterator(CORPUS, trainer)
    config = json.loads(tokenizer.to_str())
    config["added_tokens"] = config["added_tokens"][:3]  # the bytes are tokens of the model only
    return Tokenizer.from_str(json.dumps(config))


def template(single, pair, *tokens):
    def make(tokenizer):
        return processors.TemplateProcessing(single=single, pair=pair, special_tokens=[(t, tokenizer.token_to_id(t)) for t in tokens])
    return make


def llama2():
    t = fallback_bpe(normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]), None)
    t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    t.post_processor = template("<s> $A", "<s> $A <s> $B", "<s>")(t)
    return t


def mistral3():
    t = fallback_bpe(None, pre_tokenizers.Metaspace("▁", prepend_scheme="first", split=False))
    t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    t.add_special_tokens([special("[INST]"), special("[/INST]")])
    t.post_processor = template("<s> $A", "<s> $A <s> $B", "<s>")(t)
    return t


def gemma():
    t = fallback_bpe(normalizers.Replace(" ", "▁"), pre_tokenizers.Split(" ", "merged_with_previous"))
    t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    t.add_special_tokens([special("<bos>"), special("<eos>")])
    t.add_tokens([AddedToken("\n\n", normalized=False), AddedToken("▁▁", normalized=False)])
    t.post_processor = template("<bos> $A", "<bos> $A <bos> $B", "<bos>")(t)
    return t


def llama3():
    t = byte_bpe(split_then_bytes(LLAMA3), ignore_merges=True)
    t.add_special_tokens([special(s) for s in ("<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>")])
    t.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False),
                                            template("<|begin_of_text|> $A", "<|begin_of_text|> $A <|begin_of_text|>:1 $B:1", "<|begin_of_text|>")(t)])
    return t


def qwen2():
    t = byte_bpe(split_then_bytes(QWEN2))
    t.normalizer = normalizers.NFC()
    t.add_special_tokens([special("<|im_start|>"), special("<|im_end|>")])
    t.add_tokens([AddedToken("<tool_call>", normalized=False), AddedToken("naïve", normalized=True)])
    t.post_processor = processors.ByteLevel(trim_offsets=False)
    return t


def roberta():
    t = byte_bpe(pre_tokenizers.ByteLevel(add_prefix_space=True))
    t.add_special_tokens([special("<s>"), special("</s>"), special("<pad>"), special("<mask>", lstrip=True, normalized=True)])
    t.post_processor = processors.RobertaProcessing(("</s>", t.token_to_id("</s>")), ("<s>", t.token_to_id("<s>")), add_prefix_space=True)
    return t


def wordpiece(normalizer, pre_tokenizer, prefix="##", size=600):
    t = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=100))
    t.normalizer = normalizer
    t.pre_tokenizer = pre_tokenizer
    t.train_from_iterator(CORPUS, trainers.WordPieceTrainer(vocab_size=size, show_progress=False, limit_alphabet=200, continuing_subword_prefix=prefix,
                                                            special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]))
    t.decoder = decoders.WordPiece(prefix=prefix)
    return t


def bert_uncased():
    t = wordpiece(normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer())
    t.post_processor = template("[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1", "[CLS]", "[SEP]")(t)
    return t


def bert_cased():
    t = wordpiece(normalizers.BertNormalizer(lowercase=False, strip_accents=False), pre_tokenizers.BertPreTokenizer())
    t.post_processor = processors.BertProcessing(("[SEP]", t.token_to_id("[SEP]")), ("[CLS]", t.token_to_id("[CLS]")))
    t.decoder = decoders.WordPiece(cleanup=False)
    return t


def unigram(normalizer, pre_tokenizer, **options):
    t = Tokenizer(models.Unigram())
    t.normalizer = normalizer
    t.pre_tokenizer = pre_tokenizer
    corpus, alphabet = [], set()
    for text in CORPUS:  # the trainer wants a slot for every character
        if len(alphabet | set(text)) < 350:
            corpus.append(text)
            alphabet |= set(text)
    t.train_from_iterator(corpus, trainers.UnigramTrainer(vocab_size=600, show_progress=False, unk_token="<unk>", special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"]))
    if options:
        config = json.loads(t.to_str())
        config["model"].update(options)
        t = Tokenizer.from_str(json.dumps(config))
    t.decoder = decoders.Metaspace("▁", prepend_scheme="always")
    return t


def charsmap():
    """A small precompiled_charsmap with rules of one and several characters, longer and shorter than what they replace."""
    rules = {"ﬁ": "fi", "ﬂ": "fl", "Ⅻ": "XII", "①": "1", "½": "1/2", "㎏": "kg", "ｈ": "h", "ａ": "a", "ｌ": "l", "ｆ": "f", "ﾊ": "ハ", "ﾝ": "ン",
             "ﾊﾟ": "パ", "e\u0301": "é", "a\u0308": "ä", "\u00a0": " ", "\u3000": " ", "\u200b": "", "\u00ad": "", "…": "...", "™": "TM", "\t": " ", "\n": " ",
             "\u1100\u1161": "\uac00", "\u0915\u093c": "\u0958", "👍🏽": "👍", "\ufeff": ""}
    with tempfile.TemporaryDirectory() as directory:
        tsv = pathlib.Path(directory) / "rules.tsv"
        tsv.write_text("".join(" ".join(f"{ord(c):X}" for c in k) + "\t" + " ".join(f"{ord(c):X}" for c in v) + "\n" for k, v in rules.items()))
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(["a b c d e f"] * 10), model_writer=model, vocab_size=12, model_type="unigram",
                                                 normalization_rule_tsv=str(tsv), hard_vocab_limit=False, minloglevel=2)
    from sentencepiece import sentencepiece_model_pb2
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(model.getvalue())
    return proto.normalizer_spec.precompiled_charsmap


def xlm_roberta():
    t = unigram(normalizers.Sequence([normalizers.Precompiled(charsmap()), normalizers.Replace(Regex(" {2,}"), " ")]),
                pre_tokenizers.Metaspace("▁", prepend_scheme="always"))
    t.post_processor = template("<s> $A </s>", "<s> $A </s> </s> $B </s>", "<s>", "</s>")(t)
    return t


def albert():
    t = unigram(normalizers.Sequence([normalizers.Replace("``", '"'), normalizers.Replace("''", '"'), normalizers.NFKD(), normalizers.StripAccents(),
                                      normalizers.Lowercase(), normalizers.Replace(Regex(" {2,}"), " ")]),
                pre_tokenizers.Metaspace("▁", prepend_scheme="always"))
    return t


def unigram_bytes():
    t = unigram(normalizers.NFKC(), pre_tokenizers.Metaspace("▁", prepend_scheme="first", split=False))
    config = json.loads(t.to_str())
    config["model"]["vocab"] += [[b, 0.0] for b in BYTES]
    config["model"]["byte_fallback"] = True
    t = Tokenizer.from_str(json.dumps(config))
    t.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace("▁", prepend_scheme="first")])
    return t


def clip():
    t = Tokenizer(models.BPE(unk_token="<|endoftext|>", end_of_word_suffix="</w>"))
    t.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()])
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(CLIP), "removed", invert=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    t.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=700, min_frequency=0, show_progress=False, end_of_word_suffix="</w>",
                                                      special_tokens=["<|startoftext|>", "<|endoftext|>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    t.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.BPEDecoder("</w>")])
    return t


def prefixed_bpe():
    t = Tokenizer(models.BPE(unk_token="<unk>", continuing_subword_prefix="@@"))
    t.normalizer = normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC(), normalizers.Strip()])
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), pre_tokenizers.Digits(individual_digits=True)])
    t.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=600, min_frequency=0, show_progress=False, limit_alphabet=150, continuing_subword_prefix="@@", special_tokens=["<unk>"]))
    t.decoder = decoders.WordPiece(prefix="@@")
    return t


def word_level():
    t = Tokenizer(models.WordLevel(unk_token="[UNK]"))
    t.normalizer = normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents(), normalizers.Strip(left=True, right=False)])
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation("contiguous"), pre_tokenizers.Digits(False),
                                               pre_tokenizers.CharDelimiterSplit("x")])
    t.train_from_iterator(CORPUS, trainers.WordLevelTrainer(vocab_size=300, show_progress=False, special_tokens=["[UNK]"]))
    return t


def added_tokens():
    """Every option of added tokens, with a normalizer between them."""
    t = byte_bpe(pre_tokenizers.Sequence([pre_tokenizers.FixedLength(3), pre_tokenizers.Punctuation("merged_with_next"),
                                          pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]), size=300)
    t.normalizer = normalizers.Lowercase()
    t.add_tokens([AddedToken("world", single_word=True, normalized=True), AddedToken("the", single_word=True, lstrip=True, rstrip=True),
                  AddedToken("QUICK", normalized=True), AddedToken("Brown", normalized=False), AddedToken("好", rstrip=True), AddedToken("👍", lstrip=True),
                  AddedToken("<s>", single_word=True), AddedToken("aaa", normalized=False), AddedToken("aaaa", normalized=False)])
    t.add_special_tokens([special("[MASK]", lstrip=True), special("[SEP]", rstrip=True), special("[CLS]", single_word=True)])
    return t


def ctc():
    t = Tokenizer(models.WordLevel({c: i for i, c in enumerate(["<pad>", "<unk>", "|"] + [chr(c) for c in range(97, 123)])}, unk_token="<unk>"))
    t.normalizer = normalizers.Sequence([normalizers.Lowercase(), normalizers.Replace(" ", "|")])
    t.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    t.decoder = decoders.CTC(pad_token="<pad>", word_delimiter_token="|", cleanup=True)
    return t


def gpt2(directory):
    t = Tokenizer(models.BPE.from_file(f"{directory}/vocab.json", f"{directory}/merges.txt"))
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    t.add_special_tokens([special("<|endoftext|>")])
    return t


FAMILIES = {
    "bpe_trained": lambda: byte_bpe(pre_tokenizers.ByteLevel(add_prefix_space=False), TEXTS, 700),
    "llama2": llama2, "mistral3": mistral3, "gemma": gemma, "llama3": llama3, "qwen2": qwen2, "roberta": roberta,
    "tekken": lambda: byte_bpe(split_then_bytes(TEKKEN), ignore_merges=True), "gpt4o": lambda: byte_bpe(split_then_bytes(GPT4O)),
    "deepseek3": lambda: byte_bpe(split_then_bytes(*DEEPSEEK3)), "bert_uncased": bert_uncased, "bert_cased": bert_cased, "xlm_roberta": xlm_roberta,
    "albert": albert, "unigram_bytes": unigram_bytes, "clip": clip, "prefixed_bpe": prefixed_bpe, "word_level": word_level, "added_tokens": added_tokens,
    "ctc": ctc,
}


def decode(tokenizer, ids, skip):
    return tokenizer.decode(ids, skip_special_tokens=skip) if ids else ""


def cases(tokenizer):
    """One row per text: ids without special tokens; only where it is not what one expects (no others, the text itself,
    the same) also the ids with them, the text of the former, and that of the latter without special tokens."""
    for text in TEXTS:
        plain = tokenizer.encode(text, add_special_tokens=False).ids
        full = tokenizer.encode(text).ids
        decoded = decode(tokenizer, plain, False)
        skipped = decode(tokenizer, full, True)
        case = {"ids": plain}
        if full != plain:
            case["with_special"] = full
        if decoded != text:
            case["decoded"] = decoded
        if skipped != decoded:
            case["decoded_skipping"] = skipped
        yield case


def pairs(tokenizer):
    for a, b in [("Hello, world!", "naïve 你好"), ("", "a"), ("b", ""), ("the 1234", "[SEP] <s>")]:
        encoding = tokenizer.encode(a, b)
        yield {"first": a, "second": b, "ids": encoding.ids, "type_ids": encoding.type_ids}


def compact(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def write(name, tokenizer, keep_tokenizer=True):
    parts = [f'"made_with":"tokenizers {tokenizers.__version__}"']
    if keep_tokenizer:
        parts.append(f'"tokenizer":{compact(json.loads(tokenizer.to_str()))}')
    parts.append('"pairs":[\n' + ",\n".join(map(compact, pairs(tokenizer))) + "]")
    parts.append('"cases":[\n' + ",\n".join(map(compact, cases(tokenizer))) + "]")
    (OUT / f"{name}.json").write_text("{" + ",\n".join(parts) + "}\n")


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "texts.json").write_text("[\n" + ",\n".join(map(compact, TEXTS)) + "]\n")
    for name, make in FAMILIES.items():
        write(name, make())
    if len(sys.argv) > 1:
        write("gpt2", gpt2(sys.argv[1]), keep_tokenizer=False)


if __name__ == "__main__":
    main()
