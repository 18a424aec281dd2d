#include "ingot/infer/generation_config.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/json.h"
#include "ingot/infer/chat_prompt.h"
#include "ingot/weights/gguf.h"

namespace ingot::infer {
namespace {

namespace fs = std::filesystem;

std::optional<ConfigFile> file_in(const std::string& directory, const char* name) {
  const fs::path path = fs::path(directory) / name;
  if (!fs::exists(path)) return std::nullopt;
  return ConfigFile(read_file(path.string()), path.string());
}

// llama.cpp's keys, under the names of generation_config.json.
constexpr auto kGgufKeys = std::to_array<std::pair<const char*, const char*>>({
    {"general.sampling.temp", "temperature"},
    {"general.sampling.top_k", "top_k"},
    {"general.sampling.top_p", "top_p"},
    {"general.sampling.min_p", "min_p"},
    {"general.sampling.penalty_repeat", "repetition_penalty"},
    {"general.sampling.xtc_probability", "xtc_probability"},
    {"general.sampling.xtc_threshold", "xtc_threshold"},
    {"general.sampling.mirostat", "mirostat"},
    {"general.sampling.mirostat_tau", "mirostat_tau"},
    {"general.sampling.mirostat_eta", "mirostat_eta"},
    {"tokenizer.ggml.eos_token_id", "eos_token_id"},
    {"tokenizer.ggml.eot_token_id", "eot_token_id"},
    {"tokenizer.ggml.eom_token_id", "eom_token_id"},
});

ConfigFile from_gguf(const GgufMetadata& metadata) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const auto& [gguf, key] : kGgufKeys) {
    const GgufValue* value = metadata.find(gguf);
    if (value == nullptr) continue;
    if (value->type == GgufType::f32 || value->type == GgufType::f64) {
      json[key] = *metadata.number(gguf);
    } else {
      json[key] = *metadata.integer(gguf);
    }
  }
  return ConfigFile(dump_json(json), metadata.file());
}

// The token that the chat template puts behind an answer; none where it puts text.
std::optional<std::int32_t> end_of_turn(const text::Tokenizer& tokenizer) {
  if (tokenizer.config().chat_template.empty()) return std::nullopt;
  constexpr std::string_view kAnswer = "answer";
  std::string text;
  try {
    text =
        ChatPrompt(tokenizer, "").render({{"user", "question"}, {"assistant", std::string(kAnswer)}}, false);
  } catch (const text::TemplateError&) {
    return std::nullopt;  // a chat says what is wrong with it
  }
  const std::size_t at = text.rfind(kAnswer);
  if (at == std::string::npos) return std::nullopt;
  text.erase(0, text.find_first_not_of(" \t\r\n", at + kAnswer.size()));
  const text::AddedToken* longest = nullptr;
  for (const text::AddedToken& token : tokenizer.added_tokens()) {
    const bool longer = longest == nullptr || token.content.size() > longest->content.size();
    if (longer && !token.content.empty() && text.starts_with(token.content)) longest = &token;
  }
  return longest != nullptr ? std::optional(longest->id) : std::nullopt;
}

// Files have numbers of 64 bits, ids 32: a wider one would be cut to the id of another token.
std::int32_t token_id(const ConfigFile& file, const char* key, std::int64_t id) {
  INGOT_CHECK(std::in_range<std::int32_t>(id),
              FormatError(file.path(), -1, key, fmt::format("is {}; ids of tokens have 32 bits", id)));
  return static_cast<std::int32_t>(id);
}

void add_once(std::vector<std::int32_t>& ids, std::optional<std::int32_t> id) {
  if (id.has_value() && *id >= 0 && std::ranges::find(ids, *id) == ids.end()) ids.push_back(*id);
}

}  // namespace

void GenerationConfig::add_end_tokens(const ConfigFile& file) {
  std::vector<std::int64_t> ids;
  for (const char* key : {"eos_token_id", "eot_token_id", "eom_token_id"}) {
    file.read_list(key, ids);
    for (const std::int64_t id : std::exchange(ids, {})) add_once(end_tokens_, token_id(file, key, id));
  }
}

GenerationConfig GenerationConfig::of_model(const std::string& path) {
  GenerationConfig config;
  if (fs::is_directory(path)) {
    if (const auto file = file_in(path, "config.json")) {
      config.add_end_tokens(*file);
      if (const auto text = file->object("text_config")) config.add_end_tokens(*text);
    }
    config.file_ = file_in(path, "generation_config.json");
  } else if (path.ends_with(".gguf")) {
    config.file_ = from_gguf(open_gguf(path)->fields());
  }
  if (config.file_) config.add_end_tokens(*config.file_);
  return config;
}

void GenerationConfig::apply(TextOptions& o) const {
  if (!file_) return;
  bool samples = true;
  file_->read("do_sample", samples);
  for (const char* key : {"do_sample", "top_k", "top_p", "min_p", "typical_p"})
    if (file_->has(key)) o.sampling.temperature = 1;
  file_->read("temperature", o.sampling.temperature);
  file_->read("top_k", o.sampling.top_k);
  file_->read("top_p", o.sampling.top_p);
  file_->read("min_p", o.sampling.min_p);
  file_->read("repetition_penalty", o.sampling.repetition_penalty);
  file_->read("xtc_probability", o.sampling.xtc_probability);
  file_->read("xtc_threshold", o.sampling.xtc_threshold);
  file_->read("mirostat", o.sampling.mirostat);
  file_->read("mirostat_tau", o.sampling.mirostat_tau);
  file_->read("mirostat_eta", o.sampling.mirostat_eta);
  file_->read("typical_p", o.sampling.typical_p);
  file_->read("no_repeat_ngram_size", o.sampling.no_repeat_ngram_size);
  file_->read("min_new_tokens", o.sampling.min_tokens);
  file_->read("max_new_tokens", o.max_tokens);
  file_->read_list("stop_strings", o.stop);
  std::vector<std::int64_t> suppressed;
  file_->read_list("suppress_tokens", suppressed);
  for (const std::int64_t id : suppressed)
    o.sampling.logit_bias.emplace_back(token_id(*file_, "suppress_tokens", id),
                                       -std::numeric_limits<float>::infinity());
  std::vector<std::vector<std::int64_t>> banned;
  file_->read("bad_words_ids", banned);
  for (const std::vector<std::int64_t>& ids : banned) {
    TokenSequence sequence;
    sequence.reserve(ids.size());
    for (const std::int64_t id : ids) sequence.push_back(token_id(*file_, "bad_words_ids", id));
    const bool ends =
        sequence.size() == 1 && std::ranges::find(end_tokens_, sequence[0]) != end_tokens_.end();
    if (!ends) o.sampling.bad_words.push_back(std::move(sequence));  // an end token stays allowed
  }
  if (!samples) o.sampling.temperature = 0;
}

std::vector<std::int32_t> find_end_tokens(const GenerationConfig& config, const text::Tokenizer& tokenizer) {
  std::vector<std::int32_t> ids = config.end_tokens();
  add_once(ids, tokenizer.eos_id());
  for (const std::string* token : {&tokenizer.config().eot_token, &tokenizer.config().eom_token})
    if (!token->empty()) add_once(ids, tokenizer.token_to_id(*token));
  add_once(ids, end_of_turn(tokenizer));
  return ids;
}

}  // namespace ingot::infer
