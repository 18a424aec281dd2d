#include <algorithm>

#include <fmt/format.h>
#include <simdjson.h>

#include "ingot/base/error.h"
#include "ingot/text/bpe.h"
#include "ingot/text/json_view.h"
#include "ingot/text/json_write.h"
#include "ingot/text/tokenizer_spec.h"
#include "ingot/text/unigram.h"
#include "ingot/text/wordpiece.h"

// simdjson reads the document, because vocabularies and merges run to tens of megabytes; everything small
// goes on as JsonView, whose errors name the field.

namespace ingot::text {

namespace {

using simdjson::dom::element;
using simdjson::dom::element_type;

/// One location in the file, for errors. There are hundreds of thousands of locations in lists: their index
/// becomes text only where something is wrong.
struct At {
  const std::string& source;
  std::string field;
  std::int64_t index = -1;  ///< in a list
  [[noreturn]] void fail(std::string_view problem) const {
    throw FormatError(source, -1, index < 0 ? field : fmt::format("{}[{}]", field, index), problem);
  }
};

std::string_view type_name(element value) {
  switch (value.type()) {
    case element_type::ARRAY:
      return "array";
    case element_type::OBJECT:
      return "object";
    case element_type::STRING:
      return "string";
    case element_type::BOOL:
      return "boolean";
    case element_type::NULL_VALUE:
      return "null";
    default:
      return "number";
  }
}

template <class T>
T get(element value, const At& at, std::string_view expected) {
  T out;
  if (value.get(out) != simdjson::SUCCESS)
    at.fail(fmt::format("expected {}, found {}", expected, type_name(value)));
  return out;
}

element parse_document(simdjson::dom::parser& parser, std::string_view text, const std::string& source) {
  element root;
  const auto error = parser.parse(text.data(), text.size()).get(root);
  INGOT_CHECK(error == simdjson::SUCCESS, FormatError(source, -1, "document",
                                                      fmt::format("{} bytes are not JSON: {}", text.size(),
                                                                  simdjson::error_message(error))));
  return root;
}

std::int32_t parse_id(element value, const At& at, std::size_t entries) {
  const auto id = get<std::int64_t>(value, at, "an integer");
  // Space for holes, but not for a table that one hostile number makes gigabytes large.
  const auto limit = static_cast<std::int64_t>(entries * 16 + (1U << 20));
  if (id < 0 || id > limit)
    at.fail(fmt::format("the id {} is out of range: {} tokens allow 0 to {}", id, entries, limit));
  return static_cast<std::int32_t>(id);
}

Vocabulary parse_vocabulary(element value, const std::string& source, const std::string& field) {
  const auto object = get<simdjson::dom::object>(value, {source, field}, "an object");
  std::size_t count = 0, bytes = 0;
  for (const auto& [token, id] : object) {
    ++count;
    bytes += token.size();
  }
  Vocabulary vocabulary;
  vocabulary.reserve(count, bytes);
  for (const auto& [token, value_of_id] : object) {
    const auto at = [&, t = token] { return At{source, fmt::format("{}[\"{}\"]", field, t)}; };
    std::int64_t raw = -1;
    std::int32_t id = -1;
    if (value_of_id.get(raw) == simdjson::SUCCESS && raw >= 0 && raw < static_cast<std::int64_t>(count))
      id = static_cast<std::int32_t>(raw);
    else
      id = parse_id(value_of_id, at(), count);
    switch (vocabulary.add(token, id)) {
      case Vocabulary::Added::yes:
        break;
      case Vocabulary::Added::token_exists:
        at().fail("the token is listed twice");
      case Vocabulary::Added::id_exists:
        at().fail(fmt::format("the id {} belongs to \"{}\" already", id, vocabulary.token(id)));
    }
  }
  return vocabulary;
}

MergeTable parse_merges(element value, const Vocabulary& vocabulary, const BpeOptions& options,
                        const std::string& source) {
  const auto array = get<simdjson::dom::array>(value, {source, "model.merges"}, "an array");
  MergeBuilder merges(vocabulary, options, array.size());
  At at{source, "model.merges", 0};
  for (const element entry : array) {
    std::string problem;
    if (entry.is_string()) {
      problem = merges.add_line(entry);
    } else {
      const auto pair = get<simdjson::dom::array>(entry, at, "a string or a list of two");
      if (pair.size() != 2) at.fail(fmt::format("expected two tokens, found {}", pair.size()));
      problem = merges.add(get<std::string_view>(pair.at(0), at, "a string"),
                           get<std::string_view>(pair.at(1), at, "a string"));
    }
    if (!problem.empty()) at.fail(problem);
    ++at.index;
  }
  return merges.take();
}

std::optional<std::string> optional_string(const JsonView& config, std::string_view key) {
  return config.has(key) ? std::optional(config.string(key)) : std::nullopt;
}

std::shared_ptr<const Model> parse_bpe(element model, const JsonView& config, const std::string& source) {
  BpeOptions options;
  options.unk_token = optional_string(config, "unk_token");
  options.continuing_subword_prefix = optional_string(config, "continuing_subword_prefix");
  options.end_of_word_suffix = optional_string(config, "end_of_word_suffix");
  if (config.has("dropout")) options.dropout = config.at("dropout").number();
  options.fuse_unk = config.boolean("fuse_unk", false);
  options.byte_fallback = config.boolean("byte_fallback", false);
  options.ignore_merges = config.boolean("ignore_merges", false);
  element vocab, merges;
  if (model["vocab"].get(vocab) != simdjson::SUCCESS) config.at("vocab");
  if (model["merges"].get(merges) != simdjson::SUCCESS) config.at("merges");
  Vocabulary vocabulary = parse_vocabulary(vocab, source, "model.vocab");
  MergeTable table = parse_merges(merges, vocabulary, options, source);
  return std::make_shared<BpeModel>(std::move(vocabulary), std::move(table), std::move(options));
}

std::shared_ptr<const Model> parse_unigram(element model, const JsonView& config, const std::string& source) {
  element vocab;
  if (model["vocab"].get(vocab) != simdjson::SUCCESS) config.at("vocab");
  const auto list = get<simdjson::dom::array>(vocab, {source, "model.vocab"}, "an array");
  Vocabulary vocabulary;
  std::vector<double> scores;
  vocabulary.reserve(list.size(), list.size() * 8);
  for (const element entry : list) {
    const auto id = static_cast<std::int32_t>(scores.size());
    const At at{source, "model.vocab", id};
    const auto pair = get<simdjson::dom::array>(entry, at, "a token with its score");
    if (pair.size() != 2)
      at.fail(fmt::format("expected a token with its score, found {} items", pair.size()));
    const auto token = get<std::string_view>(pair.at(0), at, "a string");
    if (vocabulary.add(token, id) != Vocabulary::Added::yes) vocabulary.add_again(token, id);
    scores.push_back(get<double>(pair.at(1), at, "a number"));
  }
  std::optional<std::int32_t> unk_id;
  if (config.has("unk_id")) {
    const std::int64_t id = config.at("unk_id").integer();
    if (id < 0 || id >= static_cast<std::int64_t>(scores.size()))
      config.at("unk_id").fail(
          fmt::format("{} is not an id: the vocabulary has {} tokens", id, scores.size()));
    unk_id = static_cast<std::int32_t>(id);
  }
  return std::make_shared<UnigramModel>(std::move(vocabulary), std::move(scores), unk_id,
                                        config.boolean("byte_fallback", false));
}

std::shared_ptr<const Model> parse_words(element model, const JsonView& config, const std::string& source,
                                         bool whole) {
  element vocab;
  if (model["vocab"].get(vocab) != simdjson::SUCCESS) config.at("vocab");
  Vocabulary vocabulary = parse_vocabulary(vocab, source, "model.vocab");
  if (whole)
    return std::make_shared<WordLevelModel>(std::move(vocabulary), config.string("unk_token", "<unk>"));
  WordPieceOptions options;
  options.unk_token = config.string("unk_token", options.unk_token);
  options.continuing_subword_prefix =
      config.string("continuing_subword_prefix", options.continuing_subword_prefix);
  if (config.has("max_input_chars_per_word"))
    options.max_input_chars_per_word = config.at("max_input_chars_per_word").integer();
  return std::make_shared<WordPieceModel>(std::move(vocabulary), std::move(options));
}

/// Files from before the field existed: each kind has a member that no other has.
std::string guess_type(const simdjson::dom::object& model) {
  element found;
  if (model["merges"].get(found) == simdjson::SUCCESS) return "BPE";
  if (model["vocab"].get(found) == simdjson::SUCCESS && found.is_array()) return "Unigram";
  if (model["max_input_chars_per_word"].get(found) == simdjson::SUCCESS) return "WordPiece";
  return "WordLevel";
}

std::shared_ptr<const Model> parse_model(element value, const std::string& source) {
  const auto object = get<simdjson::dom::object>(value, {source, "model"}, "an object");
  std::string small = "{";  // the model without its large members
  for (const auto& [key, member] : object) {
    if (key == "vocab" || key == "merges") continue;
    if (small.size() > 1) small += ',';
    small += json_string(key) + ":" + simdjson::minify(member);
  }
  const JsonDocument document(small + "}", source, "model");
  const JsonView config = document.root();
  const std::string type = config.string("type", guess_type(object));
  if (type == "BPE") return parse_bpe(value, config, source);
  if (type == "Unigram") return parse_unigram(value, config, source);
  if (type == "WordPiece" || type == "WordLevel")
    return parse_words(value, config, source, type == "WordLevel");
  config.fail(fmt::format("unknown model \"{}\"", type));
}

AddedToken parse_added_token(const JsonView& config) {
  AddedToken token = read_added_token(config);
  const std::int64_t id = config.at("id").integer();
  if (id < 0 || id > (1 << 30)) config.at("id").fail(fmt::format("the id {} is out of range", id));
  token.id = static_cast<std::int32_t>(id);
  return token;
}

}  // namespace

AddedToken read_added_token(const JsonView& entry) {
  AddedToken token;
  token.content = entry.string("content");
  token.special = entry.boolean("special", false);
  token.single_word = entry.boolean("single_word", false);
  token.lstrip = entry.boolean("lstrip", false);
  token.rstrip = entry.boolean("rstrip", false);
  token.normalized = entry.boolean("normalized", !token.special);
  return token;
}

Vocabulary parse_vocab_json(std::string_view text, const std::string& source) {
  simdjson::dom::parser parser;
  return parse_vocabulary(parse_document(parser, text, source), source, "vocab");
}

TokenizerSpec parse_tokenizer_json(std::string_view text, const std::string& source) {
  simdjson::dom::parser parser;
  const element root = parse_document(parser, text, source);
  const auto object = get<simdjson::dom::object>(root, {source, "document"}, "an object");
  TokenizerSpec spec;
  spec.source = source;
  for (const auto& [key, value] : object) {
    const auto stage = [&, v = value](std::string& json) { json = simdjson::minify(v); };
    if (key == "normalizer") stage(spec.normalizer);
    if (key == "pre_tokenizer") stage(spec.pre_tokenizer);
    if (key == "post_processor") stage(spec.post_processor);
    if (key == "decoder") stage(spec.decoder);
    if (key == "truncation") stage(spec.truncation);
    if (key == "padding") stage(spec.padding);
    if (key == "model") spec.model = parse_model(value, source);
    if (key == "added_tokens") {
      const JsonDocument list(simdjson::minify(value), source, "added_tokens");
      if (list.root().is_null()) continue;
      for (const JsonView& item : list.root().items()) spec.added_tokens.push_back(parse_added_token(item));
    }
  }
  INGOT_CHECK(spec.model != nullptr, FormatError(source, -1, "model", "is missing"));
  return spec;
}

std::string write_tokenizer_json(const TokenizerSpec& spec) {
  std::string out = "{\n  \"version\": \"1.0\",\n";
  const auto stage = [&](const char* name, const std::string& json) {
    out += fmt::format("  \"{}\": {},\n", name, indent_json(json, 2));
  };
  stage("truncation", spec.truncation);
  stage("padding", spec.padding);
  std::vector<AddedToken> tokens = spec.added_tokens;
  std::stable_sort(tokens.begin(), tokens.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
  out += "  \"added_tokens\": [";
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const AddedToken& t = tokens[i];
    out += fmt::format(
        "{}\n    {{\n      \"id\": {},\n      \"content\": {},\n      \"single_word\": {},\n      "
        "\"lstrip\": {},\n"
        "      \"rstrip\": {},\n      \"normalized\": {},\n      \"special\": {}\n    }}",
        i == 0 ? "" : ",", t.id, json_string(t.content), t.single_word, t.lstrip, t.rstrip, t.normalized,
        t.special);
  }
  out += tokens.empty() ? "],\n" : "\n  ],\n";
  stage("normalizer", spec.normalizer);
  stage("pre_tokenizer", spec.pre_tokenizer);
  stage("post_processor", spec.post_processor);
  stage("decoder", spec.decoder);
  out += "  \"model\": ";
  spec.model->write_json([&](std::string_view text) { out += text; });
  out += "\n}\n";
  return out;
}

}  // namespace ingot::text
