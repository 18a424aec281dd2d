#include <algorithm>
#include <memory>
#include <numeric>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/json.h"
#include "ingot/base/printable.h"
#include "ingot/cli/arguments.h"
#include "ingot/cli/commands.h"
#include "ingot/cli/text_inputs.h"
#include "ingot/core/device_config.h"
#include "ingot/hub/resolve.h"
#include "ingot/infer/sentence_embedder.h"
#include "ingot/infer/text_classifier.h"

namespace ingot::cli {
namespace {

using Json = nlohmann::ordered_json;

struct RerankOptions {
  std::string model, query, format = "as stored", device = "auto";
  TextInputs documents;
  std::int64_t top = 0;  // 0: all
  bool raw = false, json = false;
};

int run(const RerankOptions& o) {
  INGOT_CHECK(o.top >= 0, InvalidConfig("--top", fmt::format("must not be negative, got {}", o.top)));
  const std::vector<std::string> documents = o.documents.read();
  const TextClassifier model =
      TextClassifier::open(hub::resolve_model(o.model),
                           encoder_options(o.format == "as stored" ? "" : o.format, choose_device(o.device)));
  const std::vector<float> scores =
      model.rerank(o.query, views_of(documents), o.raw ? ScoreKind::raw : ScoreKind::automatic);
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return scores[a] > scores[b]; });
  if (o.top > 0) order.resize(std::min(order.size(), static_cast<std::size_t>(o.top)));
  Json results = Json::array();
  for (const std::size_t i : order) {
    if (o.json) {
      results.push_back({{"index", i}, {"score", scores[i]}, {"text", documents[i]}});
    } else {
      fmt::print("{:8.4f}  {:>4}  {}\n", scores[i], i + 1, shortened(documents[i]));
    }
  }
  if (o.json)
    fmt::print("{}\n", printable_json(dump_json(Json{{"query", o.query}, {"results", std::move(results)}})));
  return 0;
}

}  // namespace

void add_rerank(Command& root) {
  auto o = std::make_shared<RerankOptions>();
  Command command =
      root.subcommand("rerank", "Sort documents by how well they answer a query, with a cross-encoder");
  command
      .option("model", o->model,
              "Directory of a cross-encoder or another reranker with a classification head")
      .required();
  command.option("-q,--query", o->query, "What the documents are to answer").required();
  o->documents.add_to(command);
  command.option("--top", o->top, "Print the best so many; 0: all");
  command.flag("--raw", o->raw, "Print logits, not what the model makes of them");
  add_load_format_option(command, o->format);
  add_device_option(command, o->device);
  command.flag("--json", o->json, "Print one JSON object");
  command.example("ingot rerank ms-marco-MiniLM-L6-v2 -q 'When was Rome founded?' -f passages.txt --top 5",
                  "score, line and text of the five best");
  command.example(
      "ingot rerank bge-reranker-v2-m3 -q 'refund' -t 'Money back in 30 days' -t 'We ship abroad' --json",
      "for scripts");
  command.run([o] { return run(*o); });
}

}  // namespace ingot::cli
