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
  SentencePieceModel model;
  model.kind = SentencePieceModel::kBpe;
  model.byte_fallback = true;
  model.add_dummy_prefix = v.add_space_prefix.value_or(true);
  model.remove_extra_whitespaces = false;
  for (std::size_t id = 0; id < v.tokens.size(); ++id) {
    model.pieces.push_back({v.tokens[id], v.scores[id], type_of(v, id)});
  }
  return make_sentencepiece(model, source);
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
  const bool pieces = v.model == "llama";
  INGOT_CHECK(pieces || v.model == "gpt2" || v.model == "gemma4",
              NotImplemented(fmt::format(
                  "{}: tokenizer.ggml.model '{}' (llama, gpt2 and gemma4 are); give a tokenizer.json "
                  "beside it",
                  source, v.model)));
  const GgufPreTokenizers* pre = pieces ? nullptr : &pre_tokenizer_of(v, source);
  TokenizerSpec spec = pieces ? make_pieces(v, source) : make_bpe(v, *pre, source);
  spec.source = source;
  spec.config.bos_token = token_at(v, v.bos, "tokenizer.ggml.bos_token_id", source);
  spec.config.eos_token = token_at(v, v.eos, "tokenizer.ggml.eos_token_id", source);
  spec.config.eot_token = token_at(v, v.eot, "tokenizer.ggml.eot_token_id", source);
  spec.config.eom_token = token_at(v, v.eom, "tokenizer.ggml.eom_token_id", source);
  spec.config.pad_token = token_at(v, v.pad, "tokenizer.ggml.padding_token_id", source);
  if (v.unk) spec.config.unk_token = token_at(v, v.unk, "tokenizer.ggml.unknown_token_id", source);
  const bool bos = v.add_bos.value_or(pieces || pre->add_bos) && !spec.config.bos_token.empty();
  spec.config.chat_template = v.chat_template;
  if (bos && !v.chat_template.empty())
    spec.config.chat_template = chat_template_with_bos(v.chat_template, spec.config.bos_token);
  const bool eos = v.add_eos.value_or(false) && !spec.config.eos_token.empty();
  const std::string around =
      bos_eos_template(spec, bos ? spec.config.bos_token : "", eos ? spec.config.eos_token : "");
  if (around != "null") spec.post_processor = around;
  return spec;
}

}  // namespace ingot::text
