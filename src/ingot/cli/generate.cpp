#include "ingot/infer/generate.h"

#include <cstdio>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/cli/arguments.h"
#include "ingot/cli/verbs.h"
#include "ingot/models/language/model_directory.h"
#include "ingot/text/detokenize_stream.h"

namespace ingot::cli {
namespace {

struct Options {
  std::string model, prompt;
  GenerateOptions generate;
  bool no_stop = false, stats = false, json = false;
};

std::vector<std::int32_t> encode_prompt(const text::Tokenizer& tokenizer, const LanguageModel& model,
                                        const std::string& prompt) {
  std::vector<std::int32_t> ids = tokenizer.encode(prompt);
  if (!ids.empty()) return ids;
  const std::int64_t first =
      model.config.bos_token_id >= 0 ? model.config.bos_token_id : model.config.eos_token_id;
  INGOT_CHECK(first >= 0, InvalidConfig("--prompt", "is empty, and the model names no token to begin with"));
  return {static_cast<std::int32_t>(first)};
}

std::string_view name(StopReason reason) {
  switch (reason) {
    case StopReason::max_tokens:
      return "max_tokens";
    case StopReason::stop_token:
      return "stop_token";
    case StopReason::context_full:
      return "context_full";
    case StopReason::cancelled:
      return "cancelled";
  }
  return "";
}

int run(Options o) {
  const auto model = load_language_model(o.model, {.copy = false, .trainable = false});
  const text::Tokenizer tokenizer = open_tokenizer(o.model);
  const std::vector<std::int32_t> prompt = encode_prompt(tokenizer, *model, o.prompt);
  if (!o.no_stop && model->config.eos_token_id >= 0) {
    o.generate.stop_tokens = {static_cast<std::int32_t>(model->config.eos_token_id)};
  }
  text::DetokenizeStream stream(tokenizer);
  std::string text;
  const auto show = [&](const std::string& piece) {
    text += piece;
    if (o.json) return true;
    return std::fwrite(piece.data(), 1, piece.size(), stdout) == piece.size() && std::fflush(stdout) == 0;
  };
  if (!show(o.prompt)) return 1;
  const Generation result =
      generate(*model, prompt, o.generate, [&](std::int32_t id) { return show(stream.push(id)); });
  show(stream.finish());
  const auto count = static_cast<double>(result.tokens.size());
  if (o.json) {
    nlohmann::ordered_json json{{"text", text},
                                {"prompt_tokens", prompt.size()},
                                {"tokens", result.tokens},
                                {"stop_reason", name(result.reason)},
                                {"prompt_seconds", result.prompt_seconds},
                                {"decode_seconds", result.decode_seconds}};
    fmt::print("{}\n", json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    return 0;
  }
  fmt::print("\n");
  if (o.stats) {
    fmt::print(stderr, "\nprompt: {} tokens in {:.3f} s; then {} tokens at {:.1f} tokens/s ({})\n",
               prompt.size(), result.prompt_seconds, result.tokens.size(),
               count / std::max(result.decode_seconds, 1e-9), name(result.reason));
  }
  return 0;
}

}  // namespace

void add_generate(Command& root) {
  auto o = std::make_shared<Options>();
  Command verb = root.verb("generate", "Let a model continue a text; words appear as they are made");
  verb.option("model", o->model, "Model directory (config.json, safetensors, tokenizer.json)").required();
  verb.option("-p,--prompt", o->prompt, "Text to continue; empty: begin from nothing");
  verb.option("-n,--max-tokens", o->generate.max_tokens, "Tokens to write at most");
  verb.option("-t,--temperature", o->generate.sampling.temperature,
              "0 is always the likeliest; higher is freer");
  verb.option("--top-k", o->generate.sampling.top_k, "Draw among the k likeliest; 0: all");
  verb.option("--top-p", o->generate.sampling.top_p,
              "Draw among the likeliest that reach this probability together");
  verb.option("--min-p", o->generate.sampling.min_p, "Drop tokens less likely than this times the likeliest");
  verb.option("--repetition-penalty", o->generate.sampling.repetition_penalty,
              "Above 1 avoids what was said");
  verb.option("--seed", o->generate.sampling.seed, "The same seed writes the same text");
  verb.flag("--ignore-eos", o->no_stop, "Go on past the model's end token");
  verb.flag("--stats", o->stats, "Report speed on stderr");
  verb.flag("--json", o->json, "Print one JSON object at the end");
  verb.example("ingot generate out/model --prompt 'Once upon a time' --max-tokens 100",
               "writes 100 tokens more");
  verb.example("ingot generate out/model -p 'The answer is' -t 0",
               "the likeliest continuation, always the same");
  verb.run([o] { return run(*o); });
}

}  // namespace ingot::cli
