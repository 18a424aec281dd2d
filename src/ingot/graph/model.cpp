#include "ingot/models/forecast/model.h"

#include <fmt/format.h>

#include "ingot/autograd/engine.h"
#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/graph/graph.h"
#include "ingot/models/encoder/bert.h"
#include "ingot/models/language/decoder.h"
#include "ingot/models/opened_config.h"
#include "ingot/models/policy/dual_pool_net.h"
#include "ingot/models/policy/rank_net.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/reduce.h"

namespace ingot {
namespace {

Tensor tokens_of(const GraphOptions& options) {
  return Tensor::zeros({options.batch, options.sequence}, DType::i64);
}

// The graph of what `forward` gives or, with `backward`, of its sum and of that one's gradients.
ModelGraph graph_of_sum(ModuleRef model, const GraphOptions& options,
                        const std::function<Tensor()>& forward) {
  const GradMode recording(options.backward);
  ModelGraph graph = record_graph(model, [&] {
    const Tensor result = forward();
    if (options.backward) backward(sum(result));
  });
  graph.backward = options.backward;
  return graph;
}

std::string describe_tokens(const GraphOptions& options) {
  return fmt::format("tokens [{}, {}]", options.batch, options.sequence);
}

}  // namespace

void GraphOptions::validate() const {
  INGOT_CHECK(batch > 0, InvalidConfig("batch", fmt::format("must be at least 1, got {}", batch)));
  INGOT_CHECK(sequence > 0, InvalidConfig("sequence", fmt::format("must be at least 1, got {}", sequence)));
}

ModelGraph graph_of_model(const LanguageConfig& config, const GraphOptions& options) {
  options.validate();
  ShapeSource shapes(is_training_dtype(config.dtype) ? config.dtype : DType::f32);
  LanguageModel model(config, shapes);
  ModelGraph graph = graph_of_sum(model, options, [&] {
    const DecoderInput input{.tokens = tokens_of(options), .positions = {}, .doc_start = {}};
    return options.backward ? model.loss(input, input.tokens) : model.logits(model.hidden(input));
  });
  graph.title = fmt::format("{}, {} layers", config.model_type, config.num_hidden_layers);
  graph.input = describe_tokens(options);
  return graph;
}

ModelGraph graph_of_model(const EncoderConfig& config, const GraphOptions& options) {
  options.validate();
  ShapeSource shapes(DType::f32);
  BertModel model(config, shapes);
  ModelGraph graph = graph_of_sum(model, options, [&] {
    EncoderInput input;
    input.tokens = tokens_of(options);
    return model.hidden(input);
  });
  graph.title = fmt::format("{}, {} layers", config.model_type, config.num_hidden_layers);
  graph.input = describe_tokens(options);
  return graph;
}

ModelGraph graph_of_model(const ForecastModelConfig& config, const GraphOptions& options) {
  options.validate();
  ShapeSource shapes(DType::f32);
  const std::unique_ptr<ForecastModel> model = make_forecast_model(config, shapes);
  model->set_training(options.backward);
  const std::int64_t batch = options.batch;
  ModelGraph graph = graph_of_sum(*model, options, [&] {
    ForecastInput input{
        .x = Tensor::zeros({batch, config.channels, config.lookback}), .past_marks = {}, .future_marks = {}};
    if (config.time_features > 0) {
      input.past_marks = Tensor::zeros({batch, config.lookback, config.time_features});
      input.future_marks = Tensor::zeros({batch, config.horizon, config.time_features});
    }
    return (*model)(input);
  });
  graph.title = config.model;
  graph.input = fmt::format("windows [{}, {}, {}]", batch, config.channels, config.lookback);
  return graph;
}

ModelGraph graph_of_model(const DualPoolNetConfig& config, const GraphOptions& options) {
  options.validate();
  ShapeSource shapes(DType::f32);
  DualPoolNet model(shapes, config);
  const Shape shape{options.batch, config.input_channels, config.width};
  ModelGraph graph = graph_of_sum(model, options, [&] {
    const DualPoolOutput out =
        model(Tensor::zeros(shape), Tensor::zeros({options.batch, config.rank_context}));
    if (!options.backward) return out.policy;
    return sum(out.policy) + sum(out.value) + sum(out.rank) + sum(out.tenpai) + sum(out.danger);
  });
  graph.title = fmt::format("{}, {} blocks", kDualPoolNet, config.blocks);
  graph.input = "observations " + to_string(shape);
  return graph;
}

ModelGraph graph_of_model(const std::string& path, const GraphOptions& options) {
  const OpenedConfig opened = open_config(path);
  const bool known = opened.info != nullptr && opened.info->name != kRankNet;
  INGOT_CHECK(known, InvalidConfig(path, opened.problem.empty()
                                             ? "is not a model: a directory with config.json, or a GGUF file"
                                             : "is " + opened.problem));
  if (opened.info->can(ModelTask::embed))
    return graph_of_model(EncoderConfig::from_json(opened.text, opened.path), options);
  if (opened.info->can(ModelTask::forecast)) return graph_of_model(read_forecaster(opened), options);
  if (opened.info->can(ModelTask::play))
    return graph_of_model(DualPoolNetConfig::from_json(opened.text, opened.path), options);
  return graph_of_model(LanguageConfig::from_json(opened.text, opened.path), options);
}

}  // namespace ingot
