#include <memory>
#include <span>

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

struct ClassifyOptions {
  std::string model, format = "as stored", device = "auto";
  TextInputs inputs;
  std::int64_t top = 1;
  bool raw = false, json = false;
};

void print_labels(const ClassifyOptions& o, const TextClassifier& classifier,
                  const std::vector<std::string>& texts) {
  const Tensor scores =
      classifier.scores(classifier.encode(views_of(texts)), o.raw ? ScoreKind::raw : ScoreKind::automatic);
  const std::vector<float> all = scores.to_vector<float>();
  const auto width = static_cast<std::size_t>(scores.dim(1));
  const std::size_t shown = std::min(width, static_cast<std::size_t>(o.top));
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::vector<LabelScore> ranked = classifier.ranked(std::span(all).subspan(i * width, width));
    if (o.json) {
      Json labels = Json::array();
      for (const LabelScore& each : ranked) labels.push_back({{"label", each.label}, {"score", each.score}});
      fmt::print("{}\n", printable_json(dump_json(Json{{"text", texts[i]}, {"labels", std::move(labels)}})));
      continue;
    }
    for (std::size_t k = 0; k < shown; ++k) {
      fmt::print("{:7.4f}  {:<20}{}\n", ranked[k].score, printable(ranked[k].label),
                 k == 0 ? "  " + shortened(texts[i]) : "");
    }
  }
}

void print_spans(const ClassifyOptions& o, const TextClassifier& classifier,
                 const std::vector<std::string>& texts) {
  const auto spans = classifier.spans(views_of(texts));
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (o.json) {
      Json found = Json::array();
      for (const LabelledSpan& each : spans[i]) {
        found.push_back({{"text", each.text},
                         {"label", each.label},
                         {"score", each.score},
                         {"tokens", {each.first_token, each.end}}});
      }
      fmt::print("{}\n", printable_json(dump_json(Json{{"text", texts[i]}, {"spans", std::move(found)}})));
      continue;
    }
    fmt::print("{}\n", shortened(texts[i]));
    for (const LabelledSpan& each : spans[i])
      fmt::print("{:7.4f}  {:<20}  {}\n", each.score, printable(each.label), printable(each.text));
    if (spans[i].empty()) fmt::print("         nothing found\n");
  }
}

int run(const ClassifyOptions& o) {
  INGOT_CHECK(o.top >= 1, InvalidConfig("--top", fmt::format("must be at least 1, got {}", o.top)));
  const std::vector<std::string> texts = o.inputs.read();
  const TextClassifier classifier =
      TextClassifier::open(hub::resolve_model(o.model),
                           encoder_options(o.format == "as stored" ? "" : o.format, choose_device(o.device)));
  if (classifier.labels().of == LabelsOf::tokens) {
    INGOT_CHECK(o.top == 1 && !o.raw,
                InvalidConfig(o.raw ? "--raw" : "--top",
                              "has no effect on a model that labels tokens; leave it out"));
    print_spans(o, classifier, texts);
  } else {
    print_labels(o, classifier, texts);
  }
  return 0;
}

}  // namespace

void add_classify(Command& root) {
  auto o = std::make_shared<ClassifyOptions>();
  Command command =
      root.subcommand("classify", "Label texts, or find names in them, with a trained classifier");
  command
      .option("model", o->model,
              "Directory of a model for sequence or token classification, an encoder or a decoder")
      .required();
  o->inputs.add_to(command);
  command.option("--top", o->top, "Labels to print for each text; --json prints all");
  command.flag("--raw", o->raw, "Print logits, not probabilities");
  add_load_format_option(command, o->format);
  add_device_option(command, o->device);
  command.flag("--json", o->json, "Print one JSON object per text");
  command.example("ingot classify distilbert-sst2 -t 'A wonderful film'",
                  "the label with the highest probability");
  command.example("ingot classify bert-base-NER -t 'Ada Lovelace lived in London'",
                  "names and what they are");
  command.example("ingot classify roberta-emotions -f lines.txt --top 3 --json", "for scripts");
  command.run([o] { return run(*o); });
}

}  // namespace ingot::cli
