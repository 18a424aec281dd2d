#include "ingot/cli/inference.h"

#include <cstdio>
#include <memory>
#include <optional>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/base/parallel.h"
#include "ingot/cli/arguments.h"
#include "ingot/hub/resolve.h"

namespace ingot::cli {

void add_inference_options(Command& verb, InferenceOptions& o) {
  verb.option("model", o.model, "Model directory (config.json, weights, tokenizer.json), or a .gguf file")
      .required();
  add_run_options(verb, o);
}

void add_run_options(Command& verb, InferenceOptions& o) {
  add_device_option(verb, o.device);
  verb.option("--format", o.format,
              "Weights as stored, or f32, bf16, f16, q8_0, q4_k, ...: rounded when the model is loaded");
  verb.option(
      "--packed-cache", o.packed_cache,
      "Where packed weights are kept for the next start: auto (beside the model), off, or a directory");
  verb.option("--kv-cache", o.kv_cache,
              "What keys and values are kept in; auto: f16, but f32 where weights are f32")
      .one_of({"auto", "f32", "bf16", "f16", "i8"});
  verb.option("--context", o.context, "Tokens of a text at most; 0: the model's own limit");
  verb.option("--chunk", o.chunk, "Tokens of a prompt that go through the model at once");
  verb.option("--speculate", o.speculate,
              "Tokens to guess ahead from repetitions, up to 7; the text stays the same");
  verb.option("--threads", o.threads, "Threads; 0: one per processor");
  verb.flag("--eager", o.eager, "On a GPU: launch kernel by kernel, not the captured step of a token");
}

infer::SessionOptions session_options(const InferenceOptions& o) {
  INGOT_CHECK(o.threads >= 0,
              InvalidConfig("--threads", fmt::format("must be positive, or 0 for all, got {}", o.threads)));
  if (o.threads > 0) set_num_threads(static_cast<int>(o.threads));
  infer::SessionOptions options{.model = o.model.empty() ? o.model : hub::resolve_model(o.model),
                                .format = o.format == "as stored" ? std::string() : o.format,
                                .device = o.device,
                                .packed_cache = o.packed_cache,
                                .engine = {.context = o.context, .chunk = o.chunk, .capture = !o.eager}};
  if (o.kv_cache != "auto") options.engine.kv_cache = parse_dtype(o.kv_cache);
  return options;
}

// One setting: told apart from one that was not given, so that the model's own stays where none is.
template <class T>
void TextFlags::add(Command& verb, const std::string& names, T& (*member)(infer::TextOptions&),
                    const std::string& help) {
  const auto given = std::make_shared<std::optional<T>>();
  verb.option(names, *given, help);
  settings_.emplace_back([given, member](infer::TextOptions& options) {
    if (given->has_value()) member(options) = **given;
  });
}

void TextFlags::add_to(Command& verb) {
  using O = infer::TextOptions;
  add(
      verb, "-n,--max-tokens", +[](O & o) -> auto& { return o.max_tokens; }, "Tokens to write at most");
  add(
      verb, "-t,--temperature", +[](O & o) -> auto& { return o.sampling.temperature; },
      "0 is always the likeliest (greedy); higher is freer");
  add(
      verb, "--top-k", +[](O & o) -> auto& { return o.sampling.top_k; },
      "Draw among the k likeliest; 0: all");
  add(
      verb, "--top-p", +[](O & o) -> auto& { return o.sampling.top_p; },
      "Draw among the likeliest that reach this probability together");
  add(
      verb, "--min-p", +[](O & o) -> auto& { return o.sampling.min_p; },
      "Drop tokens less likely than this times the likeliest");
  add(
      verb, "--repetition-penalty", +[](O & o) -> auto& { return o.sampling.repetition_penalty; },
      "Above 1 avoids what was said");
  add(
      verb, "--seed", +[](O & o) -> auto& { return o.sampling.seed; }, "The same seed writes the same text");
}

void TextFlags::apply(infer::TextOptions& options) const {
  for (const auto& set : settings_) set(options);
}

bool print_piece(std::string_view piece) {
  return std::fwrite(piece.data(), 1, piece.size(), stdout) == piece.size() && std::fflush(stdout) == 0;
}

}  // namespace ingot::cli
