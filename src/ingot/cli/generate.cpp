#include <algorithm>
#include <sstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/json.h"
#include "ingot/base/printable.h"
#include "ingot/cli/commands.h"
#include "ingot/cli/inference.h"
#include "ingot/cli/ranks.h"
#include "ingot/cli/text_inputs.h"

namespace ingot::cli {
namespace {

struct GenerateOptions {
  InferenceOptions inference;
  TextFlags text;
  std::vector<std::string> prompts;
  std::string prompts_file;
  std::int64_t batch = 8;
  infer::BeamOptions beams;
  std::string early_stopping = "false";
  bool ignore_end_tokens = false, stats = false, json = false;
};

nlohmann::ordered_json as_json(const infer::WrittenText& written) {
  const infer::Generation& g = written.generation;
  return {{"text", written.prompt + written.text},
          {"prompt_tokens", written.prompt_tokens},
          {"tokens", g.tokens},
          {"stop_reason", infer::name(g.reason)},
          {"prompt_seconds", g.prompt_seconds},
          {"decode_seconds", g.decode_seconds},
          {"drafted", g.drafted},
          {"accepted", g.accepted}};
}

void print_stats(const infer::WrittenText& written) {
  const infer::Generation& g = written.generation;
  fmt::print(stderr, "\nprompt: {} tokens in {:.3f} s; then {} tokens at {:.1f} tokens/s ({})\n",
             written.prompt_tokens, g.prompt_seconds, g.tokens.size(),
             static_cast<double>(g.tokens.size()) / std::max(g.decode_seconds, 1e-9), infer::name(g.reason));
  if (g.drafted > 0)
    fmt::print(stderr, "speculative decoding: {} draft tokens, {} accepted\n", g.drafted, g.accepted);
}

std::vector<std::string> prompts_of(const GenerateOptions& o) {
  std::vector<std::string> prompts = o.prompts;
  read_standard_input(prompts, "--prompt");
  if (!o.prompts_file.empty()) {
    std::istringstream lines(read_file(o.prompts_file));
    for (std::string line; std::getline(lines, line);)
      if (!line.empty()) prompts.push_back(line);
    INGOT_CHECK(!prompts.empty(), InvalidConfig("--prompts", o.prompts_file + " holds no line of text"));
  }
  if (prompts.empty()) prompts.emplace_back();
  return prompts;
}

// Words as they come.
void write_one(const GenerateOptions& o, infer::Session& session, const std::string& prompt,
               const infer::TextOptions& text) {
  print_piece(prompt);
  const infer::WrittenText written = session.generate(prompt, text, print_piece);
  print_piece("\n");
  if (o.stats) print_stats(written);
}

void write_all(const GenerateOptions& o, infer::Session& session, const std::vector<std::string>& prompts,
               const infer::TextOptions& text) {
  nlohmann::ordered_json texts = nlohmann::ordered_json::array();
  bool first = true;
  session.generate_all(prompts, text, [&](const infer::WrittenText& written) {
    if (o.json) return texts.push_back(as_json(written));
    print_piece(fmt::format("{}{}{}\n", first ? "" : "\n---\n", written.prompt, written.text));
    if (o.stats) print_stats(written);
    first = false;
  });
  if (!o.json) return;
  const nlohmann::ordered_json all =
      prompts.size() == 1 ? texts.front() : nlohmann::ordered_json{{"texts", texts}};
  fmt::print("{}\n", printable_json(dump_json(all)));
}

infer::BeamOptions beams_of(const GenerateOptions& o) {
  infer::BeamOptions beams = o.beams;
  using infer::EarlyStopping;
  INGOT_CHECK(o.early_stopping == "false" || o.early_stopping == "true" || o.early_stopping == "never",
              InvalidConfig("--early-stopping", "is false, true or never, got " + o.early_stopping));
  if (o.early_stopping == "true") beams.early_stopping = EarlyStopping::yes;
  if (o.early_stopping == "never") beams.early_stopping = EarlyStopping::never;
  return beams;
}

// The best text of each prompt; as JSON all of them.
void write_beams(const GenerateOptions& o, infer::Session& session, const std::vector<std::string>& prompts,
                 const infer::TextOptions& text) {
  const infer::BeamOptions beams = beams_of(o);
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const std::vector<infer::WrittenText> found = session.search(prompts[i], text, beams);
    nlohmann::ordered_json of_prompt = nlohmann::ordered_json::array();
    for (const infer::WrittenText& written : found) {
      of_prompt.push_back(as_json(written));
      of_prompt.back()["score"] = written.score;
    }
    all.push_back({{"beams", std::move(of_prompt)}});
    if (o.json || found.empty()) continue;
    print_piece(fmt::format("{}{}{}\n", i == 0 ? "" : "\n---\n", prompts[i], found.front().text));
    if (o.stats) print_stats(found.front());
  }
  if (!o.json) return;
  fmt::print("{}\n", printable_json(dump_json(prompts.size() == 1 ? all.front()
                                                                  : nlohmann::ordered_json{{"texts", all}})));
}

int generate(const GenerateOptions& o, const infer::SessionOptions& options) {
  INGOT_CHECK(o.beams.width != 1 || (o.beams.length_penalty == 1 && o.early_stopping == "false"),
              InvalidConfig("--beams", "is needed by --length-penalty and --early-stopping: set it above 1"));
  const std::vector<std::string> prompts = prompts_of(o);
  infer::Session session(options);
  infer::TextOptions text = session.options({.speculate = speculated_tokens(o.inference)});
  text.ignore_end_tokens = o.ignore_end_tokens;
  o.text.apply(text);
  if (o.beams.width != 1) {
    write_beams(o, session, prompts, text);
  } else if (prompts.size() == 1 && !o.json) {
    write_one(o, session, prompts.front(), text);
  } else {
    write_all(o, session, prompts, text);
  }
  return 0;
}

int run(const GenerateOptions& o) {
  const auto session = [&] {
    infer::SessionOptions options = session_options(o.inference);
    options.batch = o.batch;
    options.engine.prefix_cache = o.beams.width != 1;  // by which beams share what they have in common
    options.engine.idle_contexts = std::max<std::int64_t>(1, o.beams.width);
    return options;
  };
  return run_with_model(o.inference, o.json, session,
                        [&](const infer::SessionOptions& options) { return generate(o, options); });
}

}  // namespace

void add_generate(Command& root) {
  auto o = std::make_shared<GenerateOptions>();
  Command command = root.subcommand("generate", "Let a model continue a text; words appear as they are made");
  add_inference_options(command, o->inference);
  add_draft_option(command, o->inference);
  add_tensor_parallel_option(command, o->inference);
  command.option(
      "-p,--prompt", o->prompts,
      "Text to continue, several times for several; - is standard input; none: begin from nothing");
  command.option("--prompts", o->prompts_file, "File of prompts, one a line");
  command.option(
      "--batch", o->batch,
      "Sequences to generate at once, up to 16, on a GPU 256; on the CPU each comes out as it would alone");
  command.option(
      "--beams", o->beams.width,
      "Beam search: texts to write beside each other, of which the most probable is printed; 1: none");
  command.option("--length-penalty", o->beams.length_penalty,
                 "A beam's score is its logprob over its number of tokens to this power");
  command.option("--early-stopping", o->early_stopping,
                 "End a beam search once so many texts have ended: true; false and never: when no better is "
                 "expected, or possible");
  o->text.add_to(command);
  command.flag("--ignore-eos", o->ignore_end_tokens, "Go on past the model's end tokens");
  command.flag("--stats", o->stats, "Report speed on stderr");
  command.flag("--json", o->json, "Print one JSON object at the end");
  command.example("ingot generate out/model --prompt 'Once upon a time' --max-tokens 100",
                  "writes 100 tokens more");
  command.example("ingot generate out/model -p 'The answer is' -t 0",
                  "the most probable continuation, always the same");
  command.example("ingot generate out/model --prompts questions.txt --json", "many texts, several at a time");
  command.example("ingot generate out/model -p 'Dear' --format q4_k --kv-cache i8",
                  "a quarter of the memory, several times the speed");
  command.example("ingot generate out/model -p 'A person as JSON: ' --json-schema person.json",
                  "JSON that satisfies the schema");
  command.run([o] { return run(*o); });
}

}  // namespace ingot::cli
