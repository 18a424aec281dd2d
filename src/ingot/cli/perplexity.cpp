#include "ingot/infer/perplexity.h"

#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/json.h"
#include "ingot/base/printable.h"
#include "ingot/base/progress.h"
#include "ingot/cli/commands.h"
#include "ingot/cli/inference.h"
#include "ingot/data/documents.h"

namespace ingot::cli {
namespace {

struct PerplexityOptions {
  InferenceOptions inference;
  infer::PerplexityOptions window;
  std::string text, encoding;
  std::int64_t limit = 0;
  bool json = false;
};

int run(const PerplexityOptions& o) {
  const std::string text = data::read_documents(o.text, o.encoding);
  const infer::Session session(session_options(o.inference));
  infer::TextPerplexity found;
  {
    std::optional<ProgressBar> bar;
    found =
        infer::measure_perplexity(session, text, o.limit, o.window, [&](std::int64_t done, std::int64_t all) {
          if (!bar) bar.emplace(ProgressOptions{.label = "perplexity", .total = all});
          bar->update(done);
        });
  }
  const infer::Perplexity& result = found.result;
  if (o.json) {
    fmt::print("{}\n", printable_json(dump_json(
                           nlohmann::ordered_json{{"perplexity", result.perplexity()},
                                                  {"bits_per_byte", result.bits_per_byte(found.bytes)},
                                                  {"tokens", result.tokens},
                                                  {"bytes", found.bytes},
                                                  {"window", o.window.window},
                                                  {"stride", o.window.step()},
                                                  {"format", o.inference.format},
                                                  {"kv_cache", name(found.kv_cache)}},
                           2)));
    return 0;
  }
  fmt::print("perplexity {:.4f} over {} tokens; {:.4f} bits per byte\n", result.perplexity(), result.tokens,
             result.bits_per_byte(found.bytes));
  return 0;
}

}  // namespace

void add_perplexity(Command& root) {
  auto o = std::make_shared<PerplexityOptions>();
  Command command =
      root.subcommand("perplexity", "Measure how well a model predicts a text; lower is better");
  add_inference_options(command, o->inference);
  command
      .option("--text", o->text,
              "Text to predict: a file of text, or of records with a member \"text\"; - is standard input")
      .required();
  command.option("--encoding", o->encoding, "What the text is encoded in, if not UTF-8: latin1, cp1252 ...");
  command.option("--window", o->window.window, "Tokens that the model sees at once");
  command.option("--stride", o->window.stride, "Tokens by which the window moves on; 0: half a window");
  command.option("--limit", o->limit, "Tokens of the text to use; 0: all");
  command.flag("--json", o->json, "Print JSON");
  command.example("ingot perplexity out/model --text book.txt --format q4_k",
                  "run it with and without --format to see what rounding costs");
  command.run([o] { return run(*o); });
}

}  // namespace ingot::cli
