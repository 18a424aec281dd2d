#include "ingot/train/language/dataset_config.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "ingot/base/config.h"
#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/json.h"
#include "ingot/base/suggest.h"
#include "ingot/data/arrow.h"
#include "ingot/text/chat_templates.h"
#include "ingot/train/language/objective_config.h"

namespace ingot {
namespace {

using Strings = std::vector<std::string>;

// A value of YAML as JSON: a number, true, false, null, or a string.
nlohmann::json scalar(const std::string& text) {
  auto value = parse_json_or_discard<nlohmann::json>(text);
  return value.is_primitive() && !value.is_discarded() ? value : nlohmann::json(text);
}

// Formats of axolotl that the tokenizers of their models bring.
const Strings kTokenizersOwn{"alpaca",
                             "aya",
                             "cohere",
                             "command_a",
                             "deepseek_v2",
                             "deepseek_v3",
                             "exaone",
                             "exaone4",
                             "falcon_h1",
                             "gemma3",
                             "gemma3n",
                             "gemma4",
                             "jamba",
                             "llama3_2_vision",
                             "llama4",
                             "llava",
                             "mistral_v2v3",
                             "mistral_v3_tekken",
                             "mistral_v7_tekken",
                             "nemotron_h",
                             "phi_4",
                             "pixtral",
                             "qwen2_vl",
                             "qwen3",
                             "qwen3_5",
                             "qwen_25"};

// The source of a template that is named, or written in chat_template_jinja as text or as a file's path.
void read_template(const ConfigReader& section, std::string& source, bool* keep_tokenizers) {
  const auto jinja = section.get("chat_template_jinja", std::string());
  auto name = section.get("chat_template", std::string(jinja.empty() ? "tokenizer_default" : "jinja"));
  constexpr std::string_view kFallback = "tokenizer_default_fallback_";
  if (name == "tokenizer_default" || std::ranges::find(kTokenizersOwn, name) != kTokenizersOwn.end()) return;
  if (name == "jinja") {
    if (jinja.empty()) section.fail("chat_template_jinja", "is missing: chat_template is jinja");
    const bool file = jinja.find('{') == jinja.npos;
    source = file ? read_file(jinja) : jinja;
  } else {
    const bool fallback = name.starts_with(kFallback);
    if (fallback) name.erase(0, kFallback.size());
    const auto known = text::chat_template_by_name(name);
    Strings names = text::chat_template_names();
    if (!known)
      section.fail(
          "chat_template",
          fmt::format("'{}' is not known; leave it out for the tokenizer's own, name one of {}, or write "
                      "it in chat_template_jinja{}",
                      name, fmt::join(names, ", "), did_you_mean(name, names)));
    source = *known;
    if (fallback) return;
  }
  if (keep_tokenizers != nullptr) *keep_tokenizers = false;
}

void refuse(const ConfigReader& entry, const char* key, const char* advice) {
  if (entry.has(key)) entry.fail(key, advice);
  static_cast<void>(entry.section(key));  // null counts as read
}

// `type` may be a mapping: an instruction format of one's own.
void read_own_format(const ConfigReader& type, data::InstructionFormat& f) {
  f.field_instruction = type.get("field_instruction", f.field_instruction);
  f.field_input = type.get("field_input", f.field_input);
  f.field_output = type.get("field_output", f.field_output);
  f.field_system = type.get("field_system", f.field_system);
  f.system_prompt = f.system_prompt_without_input = type.get("system_prompt", f.system_prompt);
  f.system_format = type.get("system_format", f.system_format);
  f.format = type.get("format", f.format);
  f.no_input_format = type.get("no_input_format", type.has("format") ? f.format : f.no_input_format);
}

const Strings kTextTypes{"text", "completion", "pretrain"};
const Strings kChatTypes{"chat_template", "chat",         "chat_template.default",
                         "messages",      "conversation", "sharegpt"};
// Of preferences, which rl is for; below a template that is named, axolotl's names of what records look like.
const Strings kPreferenceTypes{"preference", "prompt", "dpo", "orpo", "kto", "passthrough.default"};
const Strings kTemplatedTypes{"chat_template", "chatml", "llama3"};
const Strings kPreferenceForms{"default", "argilla", "argilla_chat", "icr", "intel", "prompt_pairs", "ultra"};
const Strings kRewardTypes{"bradley_terry.chat_template", "stepwise_supervised"};

bool is_one_of(const std::string& word, const Strings& words) {
  return std::ranges::find(words, word) != words.end();
}

// "chatml.intel" as {"chatml", "intel"}; empty where it is not such a type.
std::pair<std::string, std::string> templated_type(const std::string& type) {
  const std::size_t dot = type.find('.');
  std::string prefix = type.substr(0, dot), form = dot == type.npos ? "default" : type.substr(dot + 1);
  if (!is_one_of(prefix, kTemplatedTypes) || !is_one_of(form, kPreferenceForms)) return {};
  return {std::move(prefix), std::move(form)};
}

// axolotl's user_defined.default.
void read_own_preferences(const ConfigReader& type, data::PreferenceFields& f) {
  f.prompt = type.get("field_prompt", f.prompt);
  f.system = type.get("field_system", f.system);
  f.chosen = type.get("field_chosen", f.chosen);
  f.rejected = type.get("field_rejected", f.rejected);
  f.completion = type.get("field_completion", f.completion);
  f.label = type.get("field_label", f.label);
  f.prompt_format = type.get("prompt_format", f.prompt_format);
  f.chosen_format = type.get("chosen_format", f.chosen_format);
  f.rejected_format = type.get("rejected_format", f.rejected_format);
  f.completion_format = type.get("completion_format", f.completion_format);
}

void read_preference_type(const ConfigReader& entry, DatasetConfig& dataset) {
  dataset.kind = DatasetKind::preference;
  data::PreferenceFields& fields = dataset.preference;
  if (entry.is_mapping("type")) return read_own_preferences(entry.section("type"), fields);
  const auto type = entry.get("type", std::string("preference"));
  if (type == "auto" || is_one_of(type, kPreferenceTypes)) return;
  const auto [prefix, form] = templated_type(type);
  if (prefix.empty()) {
    Strings known = kPreferenceTypes;
    for (const std::string& name : kTemplatedTypes)
      for (const std::string& one : kPreferenceForms) known.push_back(fmt::format("{}.{}", name, one));
    entry.fail("type", fmt::format("'{}' is not a type of preferences, which this run's rl needs; expected "
                                   "one of {}, or a mapping with field_prompt, field_chosen and "
                                   "field_rejected{}",
                                   type, fmt::join(known, ", "), did_you_mean(type, known)));
  }
  fields.templated = true;
  if (prefix != "chat_template") dataset.chat_template = *text::chat_template_by_name(prefix);
}

// Members of a record that axolotl names beside `type`.
void read_preference_fields(const ConfigReader& entry, DatasetConfig& dataset) {
  data::PreferenceFields& f = dataset.preference;
  f.chosen = entry.get("field_chosen", f.chosen);
  f.rejected = entry.get("field_rejected", f.rejected);
  f.completion = entry.get("field_completion", f.completion);
  f.label = entry.get("field_label", f.label);
  f.prompt = entry.get("field_prompt", dataset.chat.messages.empty() ? f.prompt : dataset.chat.messages);
  f.system = dataset.chat.system;
  f.chat = dataset.chat;
}

void read_type(const ConfigReader& entry, DatasetConfig& dataset) {
  if (entry.is_mapping("type")) {
    dataset.kind = DatasetKind::instruction;
    return read_own_format(entry.section("type"), dataset.instruction);
  }
  const auto type = entry.get("type", std::string("auto"));
  if (type == "auto") return;
  if (is_one_of(type, kTextTypes)) {
    dataset.kind = DatasetKind::text;
  } else if (is_one_of(type, kChatTypes)) {
    dataset.kind = DatasetKind::chat;
  } else if (type == "jsonl" || type == "json") {
    dataset.format = type == "json" ? data::SourceFormat::json : data::SourceFormat::jsonl;
  } else if (const auto format = data::instruction_format(type == "instruction" ? "alpaca" : type)) {
    dataset.kind = DatasetKind::instruction;
    dataset.instruction = *format;
  } else if (is_one_of(type, kRewardTypes)) {
    entry.fail("type", fmt::format("'{}' is for reward models, which are not trained", type));
  } else if (is_one_of(type, kPreferenceTypes) || !templated_type(type).first.empty()) {
    entry.fail("type",
               fmt::format("'{}' is of preferences, which need an objective: set rl, as in rl: dpo", type));
  } else {
    Strings known{"auto"};
    for (const Strings& names : {kTextTypes, kChatTypes, data::instruction_formats()})
      known.insert(known.end(), names.begin(), names.end());
    entry.fail("type",
               fmt::format("'{}' is not known; expected one of {}, or a mapping with field_instruction, "
                           "field_input, field_output and format{}",
                           type, fmt::join(known, ", "), did_you_mean(type, known)));
  }
}

void read_format(const ConfigReader& entry, DatasetConfig& dataset) {
  const auto format = entry.get("ds_type", std::string("auto"));
  if (format == "auto") return;
  if (format == "json")
    dataset.format = data::SourceFormat::json;  // or a record a line: seen from the text
  else if (format == "jsonl")
    dataset.format = data::SourceFormat::jsonl;
  else if (format == "csv")
    dataset.format = data::SourceFormat::csv;
  else if (format == "parquet")
    dataset.format = data::SourceFormat::parquet;
  else if (format == "arrow")
    dataset.format = data::SourceFormat::arrow;
  else if (format == "text")
    dataset.format = data::SourceFormat::text;
  else
    entry.fail("ds_type",
               fmt::format("must be one of auto, text, json, jsonl, csv, parquet, arrow, got '{}'; save "
                           "{} as Parquet or JSON lines",
                           format, format));
}

void read_chat(const ConfigReader& entry, DatasetConfig& dataset) {
  data::ChatFields& chat = dataset.chat;
  chat.messages = entry.get("field_messages", chat.messages);
  chat.tools = entry.get("field_tools", chat.tools);
  chat.system = entry.get("field_system", chat.system);
  chat.training = entry.get("message_field_training", chat.training);
  chat.drop_system_message = entry.get("drop_system_message", false);
  const ConfigReader properties = entry.section("message_property_mappings");
  for (const std::string& name : properties.keys())
    chat.properties[name] = properties.require<std::string>(name);
  for (const char* property : {"role", "content"}) {
    const std::string key = fmt::format("message_field_{}", property);
    if (entry.has(key)) chat.properties[property] = entry.require<std::string>(key);
  }
  if (entry.has("field_thinking"))
    chat.properties[entry.get("template_thinking_key", std::string("reasoning_content"))] =
        entry.require<std::string>("field_thinking");
  const ConfigReader roles = entry.section("roles");
  for (const std::string& role : roles.keys())
    for (const std::string& word : roles.require<Strings>(role)) chat.roles[word] = role;
  refuse(entry, "message_field_training_detail", "is not available: messages are trained as a whole");
}

void read_training(const ConfigReader& entry, const SampleConfig& samples, DatasetConfig& dataset) {
  data::ChatTraining& training = dataset.training;
  training.train_on_inputs = samples.train_on_inputs;
  training.eot_tokens = samples.eot_tokens;
  training.variables = samples.template_variables;
  training.roles_to_train = entry.get("roles_to_train", training.roles_to_train);
  entry.alias("train_on_eot", "train_on_eos");
  const auto eos = entry.get("train_on_eos", std::string(name(training.train_on_eos)));
  try {
    training.train_on_eos = data::parse_train_on_eos(eos, "train_on_eos");
  } catch (const InvalidConfig&) {
    entry.fail("train_on_eos", fmt::format("must be one of all, turn, last, none, got '{}'", eos));
  }
}

// "10%" or "1000"; false where it is not a number.
bool read_bound(std::string text, double& value, bool& percent) {
  percent = text.ends_with('%');
  if (percent) text.pop_back();
  char* end = nullptr;
  value = std::strtod(text.c_str(), &end);
  return !text.empty() && *end == '\0';
}

// Takes "[10%:20%]" off a split's name.
std::optional<DatasetSlice> read_slice(const ConfigReader& entry, std::string& split) {
  const std::size_t bracket = split.find('['), colon = split.find(':');
  if (bracket == split.npos) return std::nullopt;
  DatasetSlice slice;
  bool good = split.back() == ']' && colon != split.npos && colon > bracket;
  if (good) {
    const std::string begin = split.substr(bracket + 1, colon - bracket - 1);
    const std::string end = split.substr(colon + 1, split.size() - colon - 2);
    slice.has_end = !end.empty();
    good = (begin.empty() || read_bound(begin, slice.begin, slice.begin_percent)) &&
           (end.empty() || read_bound(end, slice.end, slice.end_percent));
  }
  if (!good)
    entry.fail("split",
               fmt::format("'{}' is not understood; expected a slice such as train[:10%], train[1000:] or "
                           "train[10%:20%]",
                           split));
  split.resize(bracket);
  return slice;
}

// "train" is what a file without parts is; of a directory it names files.
void read_split(const ConfigReader& entry, DatasetConfig& dataset) {
  auto split = entry.get("split", std::string());
  dataset.slice = read_slice(entry, split);
  dataset.split = split;
  dataset.name = entry.get("name", "");
  dataset.revision = entry.get("revision", "");
  dataset.data_files = entry.get("data_files", Strings{});
  namespace fs = std::filesystem;
  if (dataset.data_files.empty() && data::is_saved_dataset(dataset.path)) {
    dataset.data_files = data::saved_dataset_files(dataset.path, split);
    return;
  }
  if (split.empty() || !dataset.data_files.empty() || !fs::is_directory(dataset.path)) return;
  for (const auto& file : fs::recursive_directory_iterator(dataset.path)) {
    const std::string relative = file.path().lexically_relative(dataset.path).string();  // links as links
    if (file.is_regular_file() && relative.find(split) != relative.npos)
      dataset.data_files.push_back(relative);
  }
  std::ranges::sort(dataset.data_files);
  if (dataset.data_files.empty() && split != "train")
    entry.fail("split", fmt::format("'{}': no file below {} has that in its name", split, dataset.path));
}

DatasetConfig read_dataset(const ConfigReader& entry, const SampleConfig& samples) {
  DatasetConfig dataset;
  dataset.path = entry.require<std::string>("path");
  if (samples.preferences || samples.prompts)
    read_preference_type(entry, dataset);
  else
    read_type(entry, dataset);
  read_format(entry, dataset);
  entry.alias("field", "text_field");
  entry.alias("text_column", "text_field");
  const std::string usual = dataset.text_field;
  dataset.text_field = entry.get("text_field", usual);
  if (dataset.text_field != usual && dataset.kind == DatasetKind::automatic) dataset.kind = DatasetKind::text;
  dataset.encoding = entry.get("encoding", dataset.encoding);
  read_chat(entry, dataset);
  if (samples.preferences || samples.prompts) read_preference_fields(entry, dataset);
  read_training(entry, samples, dataset);
  read_template(entry, dataset.chat_template, nullptr);
  read_split(entry, dataset);
  refuse(entry, "shards", "is not available; give the files that are wanted as data_files");
  static_cast<void>(entry.get("trust_remote_code", false));  // no code of a data set runs here
  return dataset;
}

}  // namespace

std::pair<std::int64_t, std::int64_t> DatasetSlice::of(std::int64_t count) const {
  const auto at = [count](double value, bool percent) {
    auto index = percent ? std::llround(value / 100 * static_cast<double>(count)) : std::llround(value);
    if (index < 0) index += count;
    return std::clamp<std::int64_t>(index, 0, count);
  };
  const std::int64_t first = at(begin, begin_percent);
  return {first, std::max(first, has_end ? at(end, end_percent) : count)};
}

SampleConfig read_sample_config(const ConfigReader& root, const ObjectiveConfig& objective) {
  SampleConfig samples;
  samples.preferences = objective.preferences();
  samples.prompts = objective.kind == ObjectiveKind::grpo;
  samples.train_on_inputs = root.get("train_on_inputs", false);
  samples.eot_tokens = root.get("eot_tokens", samples.eot_tokens);
  read_template(root, samples.chat_template, &samples.keep_tokenizers_template);
  const ConfigReader variables = root.section("chat_template_kwargs");
  nlohmann::json object = nlohmann::json::object();
  for (const std::string& name : variables.keys())
    object[name] = scalar(variables.require<std::string>(name));
  samples.template_variables = dump_json(object);
  const auto strategy = root.choice("excess_length_strategy", "drop", {"drop", "truncate", "raise"});
  samples.excess_length = data::parse_excess_length(strategy);
  root.alias("min_sample_len", "min_sample_length");
  samples.min_length = root.get("min_sample_length", samples.min_length, at_least(0));
  samples.drop_duplicates = root.get("dataset_exact_deduplication", false);
  return samples;
}

std::vector<DatasetConfig> read_datasets(const ConfigReader& root, std::string_view key,
                                         const SampleConfig& samples) {
  std::vector<DatasetConfig> datasets;
  for (const ConfigReader& entry : root.sections(key)) datasets.push_back(read_dataset(entry, samples));
  return datasets;
}

}  // namespace ingot
