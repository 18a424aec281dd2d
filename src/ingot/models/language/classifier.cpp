#include "ingot/models/language/classifier.h"

#include <map>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/models/config_file.h"

namespace ingot {
namespace {

// What the classes of transformers call the matrix: GPT-2's for tokens differs from all others'.
constexpr const char* kNames[] = {"score", "classifier"};

}  // namespace

std::unique_ptr<LabelHead> load_label_head(const ModelCheckpoint& checkpoint, std::int64_t hidden_size,
                                           const LoadOptions& options) {
  Labels labels = Labels::read(ConfigFile(checkpoint.config_json, checkpoint.config_path));
  if (labels.of == LabelsOf::nothing) return nullptr;
  const WeightSource& weights = *checkpoint.weights;
  for (const std::string name : kNames) {
    if (!weights.is_available(name + ".weight")) continue;
    const Tensor weight = weights.load_tensor(name + ".weight");
    INGOT_CHECK(weight.rank() == 2 && weight.dim(1) == hidden_size,
                FormatError(weights.location(), -1, name + ".weight",
                            fmt::format("has the shape {}; expected [labels, {}]", to_string(weight.shape()),
                                        hidden_size)));
    labels.resize(weight.dim(0));
    std::map<std::string, Tensor> tensors{{"score.weight", weight}};
    const bool bias = weights.is_available(name + ".bias");
    if (bias) tensors["score.bias"] = weights.load_tensor(name + ".bias");
    LoadOptions dense = options;  // a few rows
    dense.format.clear();
    TensorMapSource source(std::move(tensors), dense, weights.location());
    const ParamSource root(source);
    auto head =
        std::make_unique<LabelHead>(std::move(labels), root.scope("score"),
                                    LinearOptions{.in = hidden_size, .out = weight.dim(0), .bias = bias});
    source.finish();
    return head;
  }
  throw FormatError(weights.location(), -1, "score.weight",
                    "is missing, and so is classifier.weight; config.json describes a classifier");
}

std::unique_ptr<LanguageModel> load_headless(const ModelCheckpoint& checkpoint, const LoadOptions& options) {
  LanguageConfig config = LanguageConfig::from_json(checkpoint.config_json, checkpoint.config_path);
  if (!checkpoint.weights->is_available("lm_head.weight"))
    config.tie_word_embeddings = true;  // nobody asks for it
  if (options.dtype.has_value()) config.dtype = *options.dtype;
  return LanguageModel::from_weights(config, *checkpoint.weights, options);
}

}  // namespace ingot
