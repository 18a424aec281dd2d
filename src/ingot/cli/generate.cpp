#include <algorithm>
#include <cstdio>
#include <deque>
#include <sstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/json.h"
#include "ingot/cli/inference.h"
#include "ingot/cli/verbs.h"
#include "ingot/core/device_config.h"
#include "ingot/text/detokenize_stream.h"

namespace ingot::cli {
namespace {

struct GenerateOptions {
  InferenceOptions inference;
  SamplingFlags sampling;
  std::vector<std::string> prompts;
  std::string prompts_file;
  std::int64_t batch = 8;
  bool no_stop = false, stats = false, json = false;
};

// Texts that do not change one another (docs/inference.md); a card promises nothing of the kind, and takes
// more.
constexpr std::int64_t kMostTogether = 16, kMostOnCard = 256;

/// One text that is being written.
struct Text {
  Text(const text::Tokenizer& tokenizer, std::string prompt_)
      : stream(tokenizer), prompt(std::move(prompt_)) {}
  text::DetokenizeStream stream;
  std::string prompt, text;
  std::size_t prompt_tokens = 0;
  std::shared_ptr<infer::Sequence> sequence;
  bool finished() const { return sequence != nullptr && sequence->finished(); }
};

bool print(const std::string& piece) {
  return std::fwrite(piece.data(), 1, piece.size(), stdout) == piece.size() && std::fflush(stdout) == 0;
}

nlohmann::ordered_json as_json(const Text& text) {
  const infer::Generation& result = text.sequence->result();
  return {{"text", text.text},
          {"prompt_tokens", text.prompt_tokens},
          {"tokens", result.tokens},
          {"stop_reason", infer::name(result.reason)},
          {"prompt_seconds", result.prompt_seconds},
          {"decode_seconds", result.decode_seconds},
          {"drafted", result.drafted},
          {"accepted", result.accepted}};
}

void print_stats(const Text& text) {
  const infer::Generation& result = text.sequence->result();
  fmt::print(stderr, "\nprompt: {} tokens in {:.3f} s; then {} tokens at {:.1f} tokens/s ({})\n",
             text.prompt_tokens, result.prompt_seconds, result.tokens.size(),
             static_cast<double>(result.tokens.size()) / std::max(result.decode_seconds, 1e-9),
             infer::name(result.reason));
  if (result.drafted > 0)
    fmt::print(stderr, "guessed ahead: {} tokens, of which {} were right\n", result.drafted, result.accepted);
}

std::vector<std::string> prompts_of(const GenerateOptions& o) {
  std::vector<std::string> prompts = o.prompts;
  if (!o.prompts_file.empty()) {
    std::istringstream lines(read_file(o.prompts_file));
    for (std::string line; std::getline(lines, line);)
      if (!line.empty()) prompts.push_back(line);
    INGOT_CHECK(!prompts.empty(), InvalidConfig("--prompts", o.prompts_file + " holds no line of text"));
  }
  if (prompts.empty()) prompts.emplace_back();
  return prompts;
}

// Starts a text; `live`: words are shown as they come.
void start(const GenerateOptions& o, const InferenceModel& opened, infer::Engine& engine, Text& text,
           bool live) {
  infer::Request request = o.sampling.request();
  request.prompt = encode_prompt(opened, text.prompt);
  request.speculate = o.inference.speculate;
  if (!o.no_stop) request.stop_tokens = end_tokens(opened);
  text.prompt_tokens = request.prompt.size();
  text.text = text.prompt;
  if (live) print(text.prompt);
  request.on_token = [&text, live](std::int32_t id) {
    const std::string piece = text.stream.push(id);
    text.text += piece;
    return !live || print(piece);
  };
  text.sequence = engine.start(std::move(request));
}

void finish(Text& text, bool live) {
  const std::string rest = text.stream.finish();
  text.text += rest;
  if (live) print(rest + "\n");
}

int run(const GenerateOptions& o) {
  const std::int64_t most = choose_device(o.inference.device).is_cpu() ? kMostTogether : kMostOnCard;
  INGOT_CHECK(o.batch >= 1 && o.batch <= most,
              InvalidConfig("--batch", fmt::format("must be 1 to {}, got {}", most, o.batch)));
  const std::vector<std::string> prompts = prompts_of(o);
  const InferenceModel opened = open_for_inference(o.inference);
  infer::Engine engine(*opened.model, opened.engine);
  std::deque<Text> texts;
  for (const std::string& prompt : prompts) texts.emplace_back(opened.tokenizer, prompt);
  const bool live = texts.size() == 1 && !o.json;
  std::size_t started = 0, shown = 0;
  const auto running = [&] {
    return std::count_if(texts.begin() + static_cast<std::ptrdiff_t>(shown),
                         texts.begin() + static_cast<std::ptrdiff_t>(started),
                         [](const Text& text) { return !text.finished(); });
  };
  while (shown < texts.size()) {
    while (started < texts.size() && running() < o.batch) start(o, opened, engine, texts[started++], live);
    engine.step();
    for (; shown < started && texts[shown].finished(); ++shown) {  // in the order of the prompts
      finish(texts[shown], live);
      if (!live && !o.json) print(fmt::format("{}{}\n", shown > 0 ? "\n---\n" : "", texts[shown].text));
      if (o.stats && !o.json) print_stats(texts[shown]);
    }
  }
  if (!o.json) return 0;
  nlohmann::ordered_json json = as_json(texts.front());
  if (texts.size() > 1) {
    json = {{"texts", nlohmann::ordered_json::array()}};
    for (const Text& text : texts) json["texts"].push_back(as_json(text));
  }
  fmt::print("{}\n", dump_json(json));
  return 0;
}

}  // namespace

void add_generate(Command& root) {
  auto o = std::make_shared<GenerateOptions>();
  Command verb = root.verb("generate", "Let a model continue a text; words appear as they are made");
  add_inference_options(verb, o->inference);
  verb.option("-p,--prompt", o->prompts,
              "Text to continue, several times for several; none: begin from nothing");
  verb.option("--prompts", o->prompts_file, "File of prompts, one a line");
  verb.option("--batch", o->batch,
              "Texts to write at once, up to 16, on a card 256; on the CPU each comes out as it would alone");
  add_sampling_options(verb, o->sampling);
  verb.flag("--ignore-eos", o->no_stop, "Go on past the model's end token");
  verb.flag("--stats", o->stats, "Report speed on stderr");
  verb.flag("--json", o->json, "Print one JSON object at the end");
  verb.example("ingot generate out/model --prompt 'Once upon a time' --max-tokens 100",
               "writes 100 tokens more");
  verb.example("ingot generate out/model -p 'The answer is' -t 0",
               "the likeliest continuation, always the same");
  verb.example("ingot generate out/model --prompts questions.txt --json", "many texts, several at a time");
  verb.example("ingot generate out/model -p 'Dear' --format q4_k --kv-cache i8",
               "a quarter of the memory, several times the speed");
  verb.run([o] { return run(*o); });
}

}  // namespace ingot::cli
