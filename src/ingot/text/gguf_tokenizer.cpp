#include "ingot/text/gguf_tokenizer.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ingot/base/error.h"
#include "ingot/base/utf8.h"
#include "ingot/text/bpe.h"
#include "ingot/text/chat_template.h"
#include "ingot/text/gguf_pre_tokenizers.h"
#include "ingot/text/json_write.h"
#include "ingot/text/sentencepiece.h"
#include "ingot/text/wordpiece.h"

namespace ingot::text {

namespace {

using Type = SentencePiece::Type;

constexpr const char* kByteLevel =
    R"({"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true})";
constexpr const char* kBareByteLevel =
    R"({"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":false})";

const GgufPreTokenizers& pre_tokenizer_of(const GgufVocabulary& vocabulary, const std::string& source) {
  const std::string& name = vocabulary.model == "gemma4" ? vocabulary.model : vocabulary.pre;
  if (const GgufPreTokenizers* found = find_gguf_pre_tokenizer(name)) return *found;
  throw NotImplemented(fmt::format(
      "{}: tokenizer.ggml.pre '{}' (those of llama.cpp are known); give a tokenizer.json beside it", source,
      name));
}

std::string split(const std::string& pattern) {
  return fmt::format(R"({{"type":"Split","pattern":{{"Regex":{}}},"behavior":"Isolated","invert":false}})",
                     json_string(pattern));
}

std::string stages_of(const GgufPreTokenizers& pre) {
  std::vector<std::string> stages;
  if (pre.digits) stages.emplace_back(R"({"type":"Digits","individual_digits":true})");
  for (const std::string& pattern : pre.patterns) stages.push_back(split(pattern));
  stages.emplace_back(pre.gpt2_pattern ? kByteLevel : kBareByteLevel);
  if (stages.size() == 1) return stages.front();
  return fmt::format(R"({{"type":"Sequence","pretokenizers":[{}]}})", fmt::join(stages, ","));
}

void check_lists(const GgufVocabulary& v, const std::string& source) {
  const auto same = [&](std::size_t size, const char* key) {
    INGOT_CHECK(
        size == 0 || size == v.tokens.size(),
        FormatError(source, -1, key, fmt::format("has {} entries for {} tokens", size, v.tokens.size())));
  };
  INGOT_CHECK(!v.tokens.empty(), FormatError(source, -1, "tokenizer.ggml.tokens", "is missing or empty"));
  same(v.scores.size(), "tokenizer.ggml.scores");
  same(v.types.size(), "tokenizer.ggml.token_type");
  for (const std::string& token : v.tokens) {
    INGOT_CHECK(is_valid_utf8(token),
                FormatError(source, -1, "tokenizer.ggml.tokens", "a token is not UTF-8"));
  }
  for (const float score : v.scores) {
    INGOT_CHECK(std::isfinite(score),
                FormatError(source, -1, "tokenizer.ggml.scores", "a score is not finite"));
  }
}

std::uint64_t type_of(const GgufVocabulary& v, std::size_t id) {
  return v.types.empty() ? Type::kNormal : static_cast<std::uint64_t>(v.types[id]);
}

/// The token of an id that the metadata name; empty for none.
std::string token_at(const GgufVocabulary& v, std::optional<std::int64_t> id, const char* key,
                     const std::string& source) {
  if (!id || *id < 0) return {};
  INGOT_CHECK(
      static_cast<std::size_t>(*id) < v.tokens.size(),
      FormatError(source, -1, key, fmt::format("is {}, but there are {} tokens", *id, v.tokens.size())));
  return v.tokens[static_cast<std::size_t>(*id)];
}

TokenizerSpec make_bpe(const GgufVocabulary& v, const GgufPreTokenizers& pre, const std::string& source) {
  TokenizerSpec spec;
  Vocabulary vocabulary;
  for (std::size_t id = 0; id < v.tokens.size(); ++id) {
    const std::uint64_t type = type_of(v, id);
    if (type == Type::kUnused && v.tokens[id].starts_with("[PAD")) continue;  // fills the embedding's rows
    INGOT_CHECK(vocabulary.add(v.tokens[id], static_cast<std::int32_t>(id)) == Vocabulary::Added::yes,
                FormatError(source, -1, fmt::format("tokenizer.ggml.tokens[{}]", id),
                            fmt::format("\"{}\" is listed twice", v.tokens[id])));
    if (type != Type::kControl && type != Type::kUserDefined) continue;
    AddedToken token;
    token.id = static_cast<std::int32_t>(id);
    token.content = v.tokens[id];
    token.special = type == Type::kControl;
    token.normalized = false;
    spec.added_tokens.push_back(std::move(token));
  }
  BpeOptions options;
  options.ignore_merges = pre.ignore_merges;
  options.byte_fallback = options.fuse_unk = pre.pieces;
  MergeBuilder merges(vocabulary, options, v.merges.size());
  for (std::size_t i = 0; i < v.merges.size(); ++i) {
    const std::string problem = merges.add_line(v.merges[i]);
    INGOT_CHECK(problem.empty(),
                FormatError(source, -1, fmt::format("tokenizer.ggml.merges[{}]", i), problem));
  }
  if (pre.pieces) {
    spec.normalizer = R"({"type":"Replace","pattern":{"String":" "},"content":"▁"})";
    spec.decoder =
        R"({"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"▁"},"content":" "},)"
        R"({"type":"ByteFallback"},{"type":"Fuse"}]})";
  } else {
    spec.pre_tokenizer = stages_of(pre);
    if (pre.nfc) spec.normalizer = R"({"type":"NFC"})";
    spec.decoder = kByteLevel;
  }
  spec.model = std::make_shared<BpeModel>(std::move(vocabulary), merges.take(), options);
  return spec;
}

TokenizerSpec make_pieces(const GgufVocabulary& v, const std::string& source) {
  INGOT_CHECK(!v.scores.empty(), FormatError(source, -1, "tokenizer.ggml.scores", "is missing"));
  const bool unigram = v.model == "t5";
  SentencePieceModel model;
  model.kind = unigram ? SentencePieceModel::kUnigram : SentencePieceModel::kBpe;
  model.byte_fallback = !unigram;
  model.charsmap = v.charsmap;
  model.add_dummy_prefix = v.add_space_prefix.value_or(true);
  model.remove_extra_whitespaces = unigram && v.remove_extra_whitespaces.value_or(false);
  for (std::size_t id = 0; id < v.tokens.size(); ++id) {
    model.pieces.push_back({v.tokens[id], v.scores[id], type_of(v, id)});
  }
  return make_sentencepiece(model, source);
}

// As llama.cpp's files have BERT's: U+2581 in front of what begins a word.
TokenizerSpec make_word_pieces(const GgufVocabulary& v) {
  constexpr std::string_view kBegin = "▁";
  TokenizerSpec spec;
  Vocabulary vocabulary;
  for (std::size_t i = 0; i < v.tokens.size(); ++i) {
    const std::string& token = v.tokens[i];
    const std::uint64_t type = type_of(v, i);
    if (type == Type::kUnused && token.starts_with("[PAD")) continue;
    const auto id = static_cast<std::int32_t>(i);
    const bool whole = type == Type::kControl || type == Type::kUserDefined || type == Type::kUnknown;
    const std::string text = whole                                          ? token
                             : token.starts_with(kBegin) && token != kBegin ? token.substr(kBegin.size())
                                                                            : "##" + token;
    if (vocabulary.add(text, id) != Vocabulary::Added::yes) vocabulary.add_again(text, id);
    if (!whole) continue;
    AddedToken added;
    added.id = id;
    added.content = text;
    added.special = type != Type::kUserDefined;
    added.normalized = false;
    spec.added_tokens.push_back(std::move(added));
  }
  const bool lowercase = v.lowercase.value_or(true);
  spec.normalizer = fmt::format(
      R"({{"type":"BertNormalizer","clean_text":true,"handle_chinese_chars":true,"strip_accents":{},"lowercase":{}}})",
      v.strip_accents.value_or(lowercase), lowercase);
  spec.pre_tokenizer = R"({"type":"BertPreTokenizer"})";
  spec.decoder = R"({"type":"WordPiece","prefix":"##","cleanup":true})";
  WordPieceOptions options;
  if (v.unk && *v.unk >= 0 && static_cast<std::size_t>(*v.unk) < v.tokens.size())
    options.unk_token = vocabulary.token(static_cast<std::int32_t>(*v.unk));
  spec.model = std::make_shared<WordPieceModel>(std::move(vocabulary), options);
  return spec;
}

// What is put around a text: BERT's [CLS] and [SEP], where the file does not say otherwise.
void put_around(const GgufVocabulary& v, bool bos_by_default, TokenizerSpec& spec,
                const std::string& source) {
  const bool words = v.model == "bert";
  constexpr std::int64_t kCls = 101, kSep = 102;  // of the first BERT, and what llama.cpp assumes
  const std::string first = words ? token_at(v, v.bos.value_or(kCls), "tokenizer.ggml.bos_token_id", source)
                                  : spec.config.bos_token;
  const std::string last =
      words ? token_at(v, v.sep.value_or(kSep), "tokenizer.ggml.seperator_token_id", source)
            : spec.config.eos_token;
  const bool bos = (words || v.add_bos.value_or(bos_by_default)) && !first.empty();
  const bool eos = (words || v.add_eos.value_or(v.model == "t5")) && !last.empty();
  const std::string around = bos_eos_template(spec, bos ? first : "", eos ? last : "");
  if (around != "null") spec.post_processor = around;
}

}  // namespace

std::optional<std::string> gguf_pre_tokenizer_name(const GgufPreTokenizer& parts) {
  if (!parts.byte_level) return std::nullopt;
  for (const GgufPreTokenizers& pre : gguf_pre_tokenizers()) {
    if (!pre.pieces && pre.patterns == parts.patterns && pre.gpt2_pattern == parts.gpt2_pattern &&
        pre.digits == parts.digits)
      return std::string(pre.names.front());
  }
  return std::nullopt;
}

namespace {

// llama.cpp begins chats with BOS where the file says so, whether the template writes it or not. A template
// that fails on one question is left as it is.
std::string chat_template_with_bos(const std::string& source, const std::string& bos) {
  try {
    const std::string chat = ChatTemplate(source).render(
        {.messages = messages_json({{.role = "user", .content = "a"}}), .bos_token = bos});
    return chat.starts_with(bos) ? source : "{{ bos_token }}" + source;
  } catch (const TemplateError&) {
    return source;
  }
}

}  // namespace

TokenizerSpec make_gguf_tokenizer(const GgufVocabulary& v, const std::string& source) {
  check_lists(v, source);
  const bool words = v.model == "bert", pieces = v.model == "llama" || v.model == "t5";
  INGOT_CHECK(
      pieces || words || v.model == "gpt2" || v.model == "gemma4",
      NotImplemented(fmt::format(
          "{}: tokenizer.ggml.model '{}' (llama, gpt2, gemma4, bert and t5 are); give a tokenizer.json "
          "beside it",
          source, v.model)));
  const GgufPreTokenizers* pre = pieces || words ? nullptr : &pre_tokenizer_of(v, source);
  TokenizerSpec spec = words    ? make_word_pieces(v)
                       : pieces ? make_pieces(v, source)
                                : make_bpe(v, *pre, source);
  spec.source = source;
  spec.config.bos_token = token_at(v, v.bos, "tokenizer.ggml.bos_token_id", source);
  spec.config.eos_token = token_at(v, v.eos, "tokenizer.ggml.eos_token_id", source);
  spec.config.eot_token = token_at(v, v.eot, "tokenizer.ggml.eot_token_id", source);
  spec.config.eom_token = token_at(v, v.eom, "tokenizer.ggml.eom_token_id", source);
  spec.config.pad_token = token_at(v, v.pad, "tokenizer.ggml.padding_token_id", source);
  if (v.unk) spec.config.unk_token = token_at(v, v.unk, "tokenizer.ggml.unknown_token_id", source);
  const bool bos_by_default = v.model == "llama" || (pre != nullptr && pre->add_bos);
  const bool bos = v.add_bos.value_or(bos_by_default) && !spec.config.bos_token.empty();
  spec.config.chat_template = v.chat_template;
  if (bos && !v.chat_template.empty())
    spec.config.chat_template = chat_template_with_bos(v.chat_template, spec.config.bos_token);
  put_around(v, bos_by_default, spec, source);
  return spec;
}

}  // namespace ingot::text
