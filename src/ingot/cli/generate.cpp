#include <cstdio>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/cli/inference.h"
#include "ingot/cli/verbs.h"
#include "ingot/text/detokenize_stream.h"

namespace ingot::cli {
namespace {

struct Options {
  InferenceOptions inference;
  SamplingFlags sampling;
  std::string prompt;
  bool no_stop = false, stats = false, json = false;
};

int run(const Options& o) {
  const InferenceModel opened = open_for_inference(o.inference);
  infer::Engine engine(*opened.model, opened.engine);
  infer::Request request = o.sampling.request();
  request.prompt = encode_prompt(opened, o.prompt);
  request.speculate = o.inference.speculate;
  if (!o.no_stop) request.stop_tokens = end_tokens(opened);
  const std::size_t prompt_tokens = request.prompt.size();
  text::DetokenizeStream stream(opened.tokenizer);
  std::string text;
  const auto show = [&](const std::string& piece) {
    text += piece;
    if (o.json) return true;
    return std::fwrite(piece.data(), 1, piece.size(), stdout) == piece.size() && std::fflush(stdout) == 0;
  };
  if (!show(o.prompt)) return 1;
  request.on_token = [&](std::int32_t id) { return show(stream.push(id)); };
  const infer::Generation result = engine.generate(std::move(request));
  show(stream.finish());
  const auto count = static_cast<double>(result.tokens.size());
  if (o.json) {
    nlohmann::ordered_json json{{"text", text},
                                {"prompt_tokens", prompt_tokens},
                                {"tokens", result.tokens},
                                {"stop_reason", infer::name(result.reason)},
                                {"prompt_seconds", result.prompt_seconds},
                                {"decode_seconds", result.decode_seconds},
                                {"drafted", result.drafted},
                                {"accepted", result.accepted}};
    fmt::print("{}\n", json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    return 0;
  }
  fmt::print("\n");
  if (o.stats) {
    fmt::print(stderr, "\nprompt: {} tokens in {:.3f} s; then {} tokens at {:.1f} tokens/s ({})\n",
               prompt_tokens, result.prompt_seconds, result.tokens.size(),
               count / std::max(result.decode_seconds, 1e-9), infer::name(result.reason));
    if (result.drafted > 0) {
      fmt::print(stderr, "guessed ahead: {} tokens, of which {} were right\n", result.drafted,
                 result.accepted);
    }
  }
  return 0;
}

}  // namespace

void add_generate(Command& root) {
  auto o = std::make_shared<Options>();
  Command verb = root.verb("generate", "Let a model continue a text; words appear as they are made");
  add_inference_options(verb, o->inference);
  verb.option("-p,--prompt", o->prompt, "Text to continue; empty: begin from nothing");
  add_sampling_options(verb, o->sampling);
  verb.flag("--ignore-eos", o->no_stop, "Go on past the model's end token");
  verb.flag("--stats", o->stats, "Report speed on stderr");
  verb.flag("--json", o->json, "Print one JSON object at the end");
  verb.example("ingot generate out/model --prompt 'Once upon a time' --max-tokens 100",
               "writes 100 tokens more");
  verb.example("ingot generate out/model -p 'The answer is' -t 0",
               "the likeliest continuation, always the same");
  verb.example("ingot generate out/model -p 'Dear' --format q4_k --kv-cache i8",
               "a quarter of the memory, several times the speed");
  verb.run([o] { return run(*o); });
}

}  // namespace ingot::cli
