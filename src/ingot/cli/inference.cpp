#include "ingot/cli/inference.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <iostream>
#include <memory>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/json.h"
#include "ingot/base/parallel.h"
#include "ingot/base/printable.h"
#include "ingot/base/progress.h"
#include "ingot/cli/arguments.h"
#include "ingot/cli/key_options.h"
#include "ingot/cli/run_keys.h"
#include "ingot/hub/resolve.h"

namespace ingot::cli {
namespace {

// "15=-2.5", and llama.cpp's "15-2.5".
TokenBias parse_bias(const std::string& word) {
  TokenBias bias{};
  const char* end = word.data() + word.size();
  auto [at, error] = std::from_chars(word.data(), end, bias.first);
  if (at != end && (*at == '=' || *at == '+')) ++at;
  const auto value = std::from_chars(at, end, bias.second);
  INGOT_CHECK(error == std::errc{} && value.ec == std::errc{} && value.ptr == end,
              InvalidConfig("--logit-bias",
                            "is a token id and what is added to its logit, as 15=-2.5 or "
                            "15=-inf; got '" +
                                word + "'"));
  return bias;
}

// "max_tokens" of "-n,--max-tokens".
std::string field_name(const std::string& names) {
  std::string field = names.substr(names.find("--") + 2);
  std::ranges::replace(field, '-', '_');
  return field;
}

std::vector<std::string> split_commas(const std::vector<std::string>& words) {
  std::vector<std::string> pieces;
  for (const std::string& word : words) {
    for (std::size_t begin = 0; begin <= word.size();) {
      const std::size_t end = std::min(word.find(',', begin), word.size());
      if (end > begin) pieces.push_back(word.substr(begin, end - begin));
      begin = end + 1;
    }
  }
  return pieces;
}

void put_constraint(nlohmann::ordered_json& fields, const infer::Constraint& constraint) {
  using Kind = infer::Constraint::Kind;
  if (constraint.kind == Kind::json_object) {
    fields["response_format"] = {{"type", "json_object"}};
  } else if (constraint.kind == Kind::json_schema) {
    const auto schema = parse_json<nlohmann::ordered_json>(constraint.source, "--json-schema");
    fields["response_format"] = {{"type", "json_schema"},
                                 {"json_schema", {{"name", "answer"}, {"strict", true}, {"schema", schema}}}};
  } else if (constraint.kind == Kind::choice) {
    fields["structured_outputs"]["choice"] = constraint.choices;
  } else {
    fields["structured_outputs"][constraint.kind == Kind::regex ? "regex" : "grammar"] = constraint.source;
  }
}

}  // namespace

void add_inference_options(Command& command, InferenceOptions& o) {
  command.option("model", o.model, "Model directory (config.json, weights, tokenizer.json), or a .gguf file")
      .required();
  add_run_options(command, o);
}

void add_run_options(Command& command, InferenceOptions& o) {
  const std::vector<ConfigSection> keys = run_keys().reference();
  const auto help = [&](const char* key) { return help_of(keys, key); };
  add_device_option(command, o.device);
  command.option("--format", o.format, help("format")).suggests(load_formats());
  command.option("--packed-cache", o.packed_cache, help("packed_cache"));
  command.option("--adapter", o.adapters, help("adapters") + "; may be repeated");
  command.option("--kv-cache", o.kv_cache, help("kv_cache")).one_of({"auto", "f32", "bf16", "f16", "i8"});
  command.option("--context", o.context, help("context"));
  command.option("--chunk", o.chunk, help("chunk"));
  command.option("--speculate", o.speculate, help("speculate"));
  command.option("--threads", o.threads, "Threads; 0: one per processor");
  command.flag("-y,--yes", o.yes, "Fetch a model of the Hub that is not in the cache without asking");
  command.flag("--eager", o.eager, help("eager"));
}

void add_tensor_parallel_option(Command& command, InferenceOptions& o) {
  command
      .option("--tensor-parallel-size,--tp", o.tensor_parallel_size,
              help_of(run_keys().reference(), "tensor_parallel_size"))
      .placeholder("RANKS");
}

void add_draft_option(Command& command, InferenceOptions& o) {
  command.option("--draft-model", o.draft_model, help_of(run_keys().reference(), "draft_model"))
      .placeholder("MODEL");
}

namespace {

bool agrees_to_fetch(const std::string& model) {
  if (!is_terminal(STDIN_FILENO) || !is_terminal(STDERR_FILENO)) return false;
  fmt::print(stderr, "{} is not in the Hub's cache, or not all of it. Fetch it? [Y/n] ", printable(model));
  std::string answer;
  std::getline(std::cin, answer);
  return !std::cin.eof() && (answer.empty() || answer.front() == 'y' || answer.front() == 'Y');
}

std::string find_model(const std::string& model, bool yes) {
  if (model.empty()) return {};
  const bool fetch = hub::is_not_fetched(model) && (yes || agrees_to_fetch(model));
  return hub::resolve_model(fetch ? "hf://" + model : model);
}

}  // namespace

infer::SessionOptions session_options(const InferenceOptions& o) {
  INGOT_CHECK(o.threads >= 0,
              InvalidConfig("--threads", fmt::format("must be positive, or 0 for all, got {}", o.threads)));
  if (o.threads > 0) set_num_threads(static_cast<int>(o.threads));
  // Ranks have a model together on CPUs alone.
  const bool on_cpu = o.tensor_parallel_size > 1 && o.device == "auto";
  infer::SessionOptions options{.model = find_model(o.model, o.yes),
                                .format = o.format == "as stored" ? std::string() : o.format,
                                .device = on_cpu ? "cpu" : o.device,
                                .packed_cache = o.packed_cache,
                                .draft_model = find_model(o.draft_model, o.yes),
                                .tensor_parallel_size = o.tensor_parallel_size,
                                .engine = {.context = o.context, .chunk = o.chunk, .capture = !o.eager}};
  for (const std::string& text : o.adapters) {
    AdapterChoice adapter = AdapterChoice::parse(text);
    adapter.path = hub::resolve_model(adapter.path);
    options.adapters.push_back(std::move(adapter));
  }
  if (o.kv_cache != "auto") options.engine.kv_cache = parse_dtype(o.kv_cache);
  return options;
}

std::int64_t speculated_tokens(const InferenceOptions& o) {
  constexpr std::int64_t kDrafted = 4;
  return o.speculate == 0 && !o.draft_model.empty() ? kDrafted : o.speculate;
}

// One setting: told apart from one that was not given, so that the model's own stays where none is.
template <class T>
void TextFlags::add(Command& command, const std::string& names, T& (*member)(infer::TextOptions&),
                    const std::string& help) {
  const auto given = std::make_shared<std::optional<T>>();
  command.option(names, *given, help);
  settings_.emplace_back([given, member](infer::TextOptions& options) {
    if (given->has_value()) member(options) = **given;
  });
  fields_.emplace_back([given, field = field_name(names)](nlohmann::ordered_json& fields) {
    if (given->has_value()) fields[field] = **given;
  });
}

void TextFlags::add_list(Command& command, const std::string& names, const char* field,
                         std::vector<std::string> infer::TextOptions::*member, const std::string& help) {
  const auto given = std::make_shared<std::vector<std::string>>();
  command.option(names, *given, help);
  settings_.emplace_back([given, member](infer::TextOptions& options) {
    if (!given->empty()) options.*member = *given;
  });
  fields_.emplace_back([given, field](nlohmann::ordered_json& fields) {
    if (!given->empty()) fields[field] = *given;
  });
}

void TextFlags::add_logit_bias(Command& command) {
  const auto given = std::make_shared<std::vector<std::string>>();
  command.option("--logit-bias", *given,
                 "ID=BIAS, added to the logit of a token; -inf rules it out; repeatable");
  settings_.emplace_back([given](infer::TextOptions& options) {
    for (const std::string& word : *given) options.sampling.logit_bias.push_back(parse_bias(word));
  });
  fields_.emplace_back([given](nlohmann::ordered_json& fields) {
    for (const std::string& word : *given) {
      const auto [id, bias] = parse_bias(word);
      fields["logit_bias"][std::to_string(id)] = std::max(bias, -100.0F);  // which rules a token out
    }
  });
}

// What the text has to be: one of these at most.
void TextFlags::add_constraints(Command& command) {
  struct Given {
    std::string json_schema, grammar, regex;
    std::vector<std::string> choice;
    bool json = false;
  };
  const auto given = std::make_shared<Given>();
  command.flag("--json-object", given->json, "The text is a JSON object");
  command.option("--json-schema", given->json_schema,
                 "File of a JSON Schema; the text is JSON that satisfies it");
  command.option(
      "--grammar", given->grammar,
      "File of a grammar that the text follows: GBNF as llama.cpp has it, or Lark where it ends in .lark");
  command.option("--regex", given->regex, "Regular expression that the whole text matches");
  command.option("--choice", given->choice, "The text is one of these; repeatable, or separated by commas");
  const auto read = [given]() -> std::optional<infer::Constraint> {
    using Kind = infer::Constraint::Kind;
    std::vector<infer::Constraint> asked;
    if (given->json) asked.push_back({.kind = Kind::json_object});
    if (!given->json_schema.empty())
      asked.push_back({.kind = Kind::json_schema, .source = read_file(given->json_schema)});
    if (!given->grammar.empty())
      asked.push_back({.kind = given->grammar.ends_with(".lark") ? Kind::lark : Kind::gbnf,
                       .source = read_file(given->grammar)});
    if (!given->regex.empty()) asked.push_back({.kind = Kind::regex, .source = given->regex});
    if (!given->choice.empty())
      asked.push_back({.kind = Kind::choice, .choices = split_commas(given->choice)});
    INGOT_CHECK(asked.size() <= 1,
                InvalidConfig("--json-schema",
                              "only one of --json-object, --json-schema, --grammar, --regex and "
                              "--choice can be given"));
    return asked.empty() ? std::nullopt : std::optional(std::move(asked.front()));
  };
  settings_.emplace_back([read](infer::TextOptions& options) {
    if (auto constraint = read()) options.constraint = *std::move(constraint);
  });
  fields_.emplace_back([read](nlohmann::ordered_json& fields) {
    if (const auto constraint = read()) put_constraint(fields, *constraint);
  });
}

void TextFlags::add_to(Command& command) {
  using O = infer::TextOptions;
  add(
      command, "-n,--max-tokens", +[](O & o) -> auto& { return o.max_tokens; }, "Tokens to write at most");
  add(
      command, "--min-tokens", +[](O & o) -> auto& { return o.sampling.min_tokens; },
      "No end token before so many");
  add_list(command, "--stop", "stop", &O::stop, "The text ends before this; repeatable");
  add(
      command, "-t,--temperature", +[](O & o) -> auto& { return o.sampling.temperature; },
      "0 is always the most probable (greedy); higher is freer");
  add(
      command, "--dynatemp-range", +[](O & o) -> auto& { return o.sampling.dynatemp_range; },
      "The surer the model, the lower the temperature, within so much of it; 0: it stays");
  add(
      command, "--dynatemp-exponent", +[](O & o) -> auto& { return o.sampling.dynatemp_exponent; },
      "Above 1 the temperature rises later with the entropy (1)");
  add(
      command, "--top-k", +[](O & o) -> auto& { return o.sampling.top_k; },
      "Draw among the k most probable; 0: all");
  add(
      command, "--top-p", +[](O & o) -> auto& { return o.sampling.top_p; },
      "Draw among the most probable that reach this probability together");
  add(
      command, "--min-p", +[](O & o) -> auto& { return o.sampling.min_p; },
      "Drop tokens less probable than this times the most probable");
  add(
      command, "--typical-p", +[](O & o) -> auto& { return o.sampling.typical_p; },
      "Draw among the most typical that reach this probability together; 1: all");
  add(
      command, "--top-n-sigma", +[](O & o) -> auto& { return o.sampling.top_n_sigma; },
      "Keep logits within n standard deviations of the largest; 0: all");
  add(
      command, "--xtc-probability", +[](O & o) -> auto& { return o.sampling.xtc_probability; },
      "How often the top choices are excluded (XTC); 0: never");
  add(
      command, "--xtc-threshold", +[](O & o) -> auto& { return o.sampling.xtc_threshold; },
      "Probability that makes a top choice; the least likely of them stays (0.1)");
  add(
      command, "--min-keep", +[](O & o) -> auto& { return o.sampling.min_keep; },
      "Tokens that top-p, min-p, typical-p and XTC leave at least");
  add(
      command, "--mirostat", +[](O & o) -> auto& { return o.sampling.mirostat; },
      "2: Mirostat 2 in place of top-k to XTC; 0: off");
  add(
      command, "--mirostat-tau", +[](O & o) -> auto& { return o.sampling.mirostat_tau; },
      "Surprise that Mirostat aims at, in bits (5)");
  add(
      command, "--mirostat-eta", +[](O & o) -> auto& { return o.sampling.mirostat_eta; },
      "How fast Mirostat corrects itself (0.1)");
  add(
      command, "--repetition-penalty", +[](O & o) -> auto& { return o.sampling.repetition_penalty; },
      "Above 1 avoids what was said");
  add(
      command, "--presence-penalty", +[](O & o) -> auto& { return o.sampling.presence_penalty; },
      "Taken from the logits of tokens that were written");
  add(
      command, "--frequency-penalty", +[](O & o) -> auto& { return o.sampling.frequency_penalty; },
      "The same for each time that they were written");
  add(
      command, "--repeat-last-n", +[](O & o) -> auto& { return o.sampling.repeat_last_n; },
      "Tokens that these three penalties look back at; -1: all");
  add(
      command, "--dry-multiplier", +[](O & o) -> auto& { return o.sampling.dry.multiplier; },
      "Strength of the penalty on going on with a repetition (DRY); 0: off");
  add(
      command, "--dry-base", +[](O & o) -> auto& { return o.sampling.dry.base; },
      "Its growth with each token of the repetition (1.75)");
  add(
      command, "--dry-allowed-length", +[](O & o) -> auto& { return o.sampling.dry.allowed_length; },
      "Repetitions up to this length are free (2)");
  add(
      command, "--dry-penalty-last-n", +[](O & o) -> auto& { return o.sampling.dry.last_n; },
      "Tokens that DRY looks back at; -1: all");
  add_list(command, "--dry-sequence-breaker", "dry_sequence_breakers", &O::dry_sequence_breakers,
           "Text where DRY's looking back ends; repeatable (newline, colon, quote, asterisk)");
  add(
      command, "--no-repeat-ngram-size", +[](O & o) -> auto& { return o.sampling.no_repeat_ngram_size; },
      "No sequence of so many tokens comes twice; 0: off");
  add_list(command, "--bad-word", "bad_words", &O::bad_words, "A word that is never written; repeatable");
  add_logit_bias(command);
  add_constraints(command);
  add(
      command, "--seed", +[](O & o) -> auto& { return o.sampling.seed; },
      "The same seed writes the same text");
}

void TextFlags::apply(infer::TextOptions& options) const {
  for (const auto& set : settings_) set(options);
}

nlohmann::ordered_json TextFlags::fields() const {
  nlohmann::ordered_json fields = nlohmann::ordered_json::object();
  for (const auto& put : fields_) put(fields);
  return fields;
}

bool print_piece(std::string_view text) {
  static const bool kTerminal = is_terminal(STDOUT_FILENO);  // which obeys control characters of a model
  const std::string piece = kTerminal ? printable(text, LineEnds::keep) : std::string(text);
  return std::fwrite(piece.data(), 1, piece.size(), stdout) == piece.size() && std::fflush(stdout) == 0;
}

}  // namespace ingot::cli
