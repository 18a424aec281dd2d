#include "ingot/infer/perplexity.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/json.h"
#include "ingot/base/progress.h"
#include "ingot/cli/inference.h"
#include "ingot/cli/verbs.h"
#include "ingot/data/text_file.h"

namespace ingot::cli {
namespace {

struct PerplexityOptions {
  InferenceOptions inference;
  infer::PerplexityOptions window;
  std::string text;
  std::int64_t limit = 0;
  bool json = false;
};

int run(const PerplexityOptions& o) {
  const std::string text = data::read_text_file(o.text);
  const InferenceModel opened = open_for_inference(o.inference);
  std::vector<std::int32_t> ids = opened.tokenizer.encode(text);
  auto bytes = static_cast<std::int64_t>(text.size());
  if (o.limit > 0 && o.limit < static_cast<std::int64_t>(ids.size())) {
    ids.resize(static_cast<std::size_t>(o.limit));
    bytes = static_cast<std::int64_t>(opened.tokenizer.decode_bytes(ids).size());
  }
  const DType kv_cache = opened.engine.kv_cache.value_or(infer::default_kv_cache(*opened.model));
  infer::Perplexity result;
  {
    ProgressBar bar({.label = "perplexity", .total = static_cast<std::int64_t>(ids.size()) - 1});
    result = infer::measure_perplexity(*opened.model, ids, opened.engine, o.window,
                                       [&](std::int64_t done) { bar.update(done); });
  }
  if (o.json) {
    fmt::print("{}\n", dump_json(nlohmann::ordered_json{{"perplexity", result.perplexity()},
                                                        {"bits_per_byte", result.bits_per_byte(bytes)},
                                                        {"tokens", result.tokens},
                                                        {"bytes", bytes},
                                                        {"window", o.window.window},
                                                        {"stride", o.window.stride},
                                                        {"format", o.inference.format},
                                                        {"kv_cache", name(kv_cache)}},
                                 2));
    return 0;
  }
  fmt::print("perplexity {:.4f} over {} tokens; {:.4f} bits per byte\n", result.perplexity(), result.tokens,
             result.bits_per_byte(bytes));
  return 0;
}

}  // namespace

void add_perplexity(Command& root) {
  auto o = std::make_shared<PerplexityOptions>();
  Command verb = root.verb("perplexity", "Measure how well a model predicts a text; lower is better");
  add_inference_options(verb, o->inference);
  verb.option("--text", o->text, "File to predict, UTF-8").required();
  verb.option("--window", o->window.window, "Tokens that the model sees at once");
  verb.option("--stride", o->window.stride, "Tokens by which the window moves on");
  verb.option("--limit", o->limit, "Tokens of the text to use; 0: all");
  verb.flag("--json", o->json, "Print JSON");
  verb.example("ingot perplexity out/model --text book.txt --format q4_k",
               "run it with and without --format to see what rounding costs");
  verb.run([o] { return run(*o); });
}

}  // namespace ingot::cli
