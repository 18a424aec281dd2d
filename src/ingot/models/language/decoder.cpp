#include "ingot/models/language/decoder.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <string>
#include <utility>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/models/language/decoder_init.h"
#include "ingot/models/language/router_statistics.h"
#include "ingot/models/rope_tables.h"
#include "ingot/nn/module_scope.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/loss.h"
#include "ingot/ops/norm.h"
#include "ingot/ops/pointwise.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

// The length of the sequences, for the scalings that depend on it.
std::int64_t sequence_length(const Tensor& positions) {
  const Tensor host = to(to(positions, kCpu), DType::i64);
  const std::vector<std::int64_t> all = host.to_vector<std::int64_t>();
  return all.empty() ? 0 : *std::ranges::max_element(all) + 1;
}

}  // namespace

Init decoder_weight_init(const LanguageConfig& c) {
  return init::Normal{.mean = 0.0, .std = c.initializer_range};
}

Init decoder_residual_init(const LanguageConfig& c) {
  return init::Normal{.mean = 0.0,
                      .std = c.initializer_range / std::sqrt(2.0 * static_cast<double>(c.num_hidden_layers))};
}

LinearOptions decoder_linear(std::int64_t in, std::int64_t out, bool bias, Init weight) {
  return {.in = in, .out = out, .bias = bias, .weight_init = std::move(weight), .bias_init = init::kZeros};
}

LanguageModel::LanguageModel(LanguageConfig config_, const ParamSource& source)
    : config([&] {
        config_.validate();
        return std::move(config_);
      }()),
      embed_tokens(source.scope("model.embed_tokens"), {.count = config.vocab_size,
                                                        .width = config.embedding_size(),
                                                        .weight_init = decoder_weight_init(config)}),
      norm(source.scope("model.norm"), config, config.norm_placement == NormPlacement::sum),
      lm_head(config.tie_word_embeddings
                  ? nullptr
                  : std::make_unique<LinearWeight>(source, "lm_head.weight",
                                                   Shape({config.vocab_size, config.embedding_size()}),
                                                   decoder_weight_init(config))),
      head_bias(config.head_bias ? source.take("lm_head.bias", {config.vocab_size}, init::kZeros)
                                 : Parameter{}) {
  if (config.position == PositionKind::learned) {
    embed_positions = std::make_unique<Embedding>(
        source.scope("model.embed_positions"),
        EmbeddingOptions{.count = config.max_position_embeddings + config.position_offset,
                         .width = config.hidden_size,
                         .weight_init = decoder_weight_init(config)});
  }
  if (config.embedding_norm)
    embed_layernorm = std::make_unique<DecoderNorm>(source.scope("model.embed_layernorm"), config);
  if (const std::int64_t narrow = config.embedding_size(), wide = config.hidden_size; narrow != wide) {
    const Init init = decoder_weight_init(config);
    project_in =
        std::make_unique<Linear>(source.scope("model.project_in"), decoder_linear(narrow, wide, false, init));
    project_out = std::make_unique<Linear>(source.scope("model.project_out"),
                                           decoder_linear(wide, narrow, false, init));
  }
  if (config.altup_num_inputs > 0) streams = std::make_unique<Streams>(source.scope("model"), config);
  if (config.hidden_size_per_layer_input > 0)
    per_layer_inputs = std::make_unique<LayerInputs>(source.scope("model"), config);
  if (config.position == PositionKind::alibi) alibi_ = alibi_query_columns(config, device());
  for (std::int64_t i = 0; i < config.num_hidden_layers; ++i) {
    layers.push_back(std::make_unique<DecoderLayer>(source.scope("model.layers", i), config, i));
  }
}

namespace {

void check_tokens(const Tensor& tokens) {
  INGOT_CHECK(tokens.rank() == 2, DimensionMismatch("a language model takes tokens [batch, sequence], got " +
                                                    to_string(tokens.shape())));
}

void check_positions(const LanguageConfig& config, std::int64_t end) {
  INGOT_CHECK(end <= config.max_position_embeddings || config.position != PositionKind::learned,
              DimensionMismatch("the sequence has " + std::to_string(end) +
                                " tokens, but the model has positions for " +
                                std::to_string(config.max_position_embeddings)));
}

}  // namespace

// Matrices may be kept in less.
DType LanguageModel::dtype_of_activations(DType embeddings) const {
  if (activation_dtype.has_value()) return *activation_dtype;
  if (norm.weight.value.defined()) return norm.weight.value.dtype();
  const DecoderNorm* first = layers.front()->input_layernorm.get();
  return first != nullptr && first->weight.value.defined() ? first->weight.value.dtype() : embeddings;
}

Tensor LanguageModel::embed(const Tensor& tokens, const Tensor& positions) const {
  const Tensor embedded = embed_tokens(tokens);
  const DType dtype = dtype_of_activations(embedded.dtype());
  Tensor x = to(embedded, dtype);
  if (config.embedding_multiplier != 1) x = x * config.embedding_multiplier;
  if (project_in != nullptr) x = (*project_in)(x);
  if (embed_layernorm != nullptr) x = (*embed_layernorm)(x);
  if (embed_positions != nullptr) {
    const auto offset = static_cast<double>(config.position_offset);
    const Tensor rows = offset == 0 ? positions : to(to(positions, DType::f32) + offset, positions.dtype());
    return x + to((*embed_positions)(rows), dtype);
  }
  return config.embedding_scale ? scaled_embedding(x, config.hidden_size, embedded.dtype()) : x;
}

Tensor LanguageModel::hidden(const DecoderInput& input, std::vector<RouterLoad>* loads) const {
  check_tokens(input.tokens);
  INGOT_CHECK(leader == nullptr, Error("a model that ranks have together runs with KV caches alone"));
  const std::int64_t batch = input.tokens.dim(0), sequence = input.tokens.dim(1);
  check_positions(config, sequence);
  DecoderContext context{.positions = input.positions, .doc_start = input.doc_start, .rope = {}};
  if (!context.positions.defined()) {
    std::vector<std::int64_t> positions(static_cast<std::size_t>(batch * sequence));
    for (std::size_t i = 0; i < positions.size(); ++i) positions[i] = static_cast<std::int64_t>(i) % sequence;
    context.positions = Tensor::from(positions, {batch, sequence}, input.tokens.device());
  }
  const bool by_length = config.rope_scaling.depends_on_length();
  const std::int64_t length = !by_length || !input.positions.defined() ? sequence
                              : input.length > 0                       ? input.length
                                                                       : sequence_length(input.positions);
  return run_layers(input.tokens, std::move(context), length, loads);
}

Tensor LanguageModel::hidden(const Tensor& tokens, std::span<const CacheSegment> segments) const {
  check_tokens(tokens);
  INGOT_CHECK(!grad_enabled(), Error("a model with a KV cache has no gradients: put it in a NoGrad scope"));
  std::vector<std::int32_t> positions;
  std::int64_t end = 0, length = 0;
  for (const CacheSegment& segment : segments) {
    INGOT_CHECK(segment.unwanted >= 0 && segment.unwanted <= segment.tokens,
                DimensionMismatch("a language model's segment has " + std::to_string(segment.tokens) +
                                  " tokens, of which " + std::to_string(segment.unwanted) +
                                  " are said to be unwanted"));
    for (std::int64_t i = 0; i < segment.tokens; ++i) {
      positions.push_back(static_cast<std::int32_t>(segment.cache->length() + i));
    }
    end = std::max(end, segment.cache->length() + segment.tokens);
    length = std::max({length, end, segment.sequence_length});
  }
  check_positions(config, end);
  const auto count = static_cast<std::int64_t>(positions.size());
  INGOT_CHECK(tokens.dim(0) == 1 && tokens.dim(1) == count,
              ShapeMismatch("a language model's tokens (with caches)", {1, count}, tokens.shape().to_vector(),
                            "all segments' tokens stand in one row"));
  if (leader != nullptr) leader->lead_hidden(tokens, segments);
  return led_pass(leader.get(), [&] {
    Tensor x = run_layers(tokens,
                          {.positions = Tensor::from(positions, {1, count}, tokens.device()),
                           .doc_start = {},
                           .rope = {},
                           .segments = segments},
                          length);
    for (const CacheSegment& segment : segments) segment.cache->advance(segment.tokens);
    return x;
  });
}

Tensor LanguageModel::hidden(const Tensor& tokens, std::span<const CacheSegment> segments,
                             const CacheOffsets& offsets) const {
  check_tokens(tokens);
  INGOT_CHECK(!grad_enabled(), Error("a model with a KV cache has no gradients: put it in a NoGrad scope"));
  std::int64_t end = offsets.capacity;
  for (const CacheSegment& segment : segments) end = std::max(end, segment.cache->capacity());
  return run_layers(
      tokens,
      {.positions = offsets.positions, .doc_start = {}, .rope = {}, .segments = segments, .offsets = offsets},
      end);
}

RopeTables LanguageModel::rope_tables(std::int64_t length) const {
  if (config.position == PositionKind::rope) rope_.prepare(config.rotary(), length, device());
  return rope_;
}

// Of the tokens beyond the context of training (Llama 4).
Tensor LanguageModel::query_scale(const Tensor& positions) const {
  if (config.query_position_scale == 0) return {};
  const bool from_one = config.floor_scale > 0;
  const double beta = config.query_position_scale, first = from_one ? 1.0 : 0.5,
               step = static_cast<double>(from_one ? config.floor_scale
                                                   : config.rope_scaling.original_max_position_embeddings);
  const Tensor scale = pointwise(
      [&](const auto& position) { return log(floor((position + first) / step) + 1.0) * beta + 1.0; },
      to(positions, DType::f32));
  return reshape(scale, {positions.dim(0), positions.dim(1), 1, 1});
}

// `end`: one more than the last position that the RoPE tables must hold.
Tensor LanguageModel::run_layers(const Tensor& tokens, DecoderContext context, std::int64_t end,
                                 std::vector<RouterLoad>* loads) const {
  context.rope = rope_tables(end);
  if (alibi_.defined()) {
    context.alibi_queries = alibi_;
    context.alibi_keys = alibi_key_columns(context.positions);
  }
  // Or the caller's scope has it so.
  const SelectiveRecompute cheap(recompute == Recompute::selective || selective_recompute());
  ResidualStream x{.sum = embed(tokens, context.positions), .update = {}};
  context.query_scale = query_scale(context.positions);
  if (context.query_scale.defined() && config.floor_scale == 0)  // Ministral 3 rounds them; Llama 4 does not
    context.query_scale = to(to(context.query_scale, x.sum.dtype()), DType::f32);
  const Tensor inputs = per_layer_inputs != nullptr ? (*per_layer_inputs)(tokens, x.sum) : Tensor();
  if (streams != nullptr) x.sum = streams->spread(x.sum);
  // The rows that nobody wants end with the last layer that has keys of its own.
  const bool cached = !context.segments.empty();
  const auto last = static_cast<std::size_t>(config.layers_with_keys() - 1);
  std::array<SharedKeys, 2> shared;
  if (lease != nullptr) lease->begin();
  std::vector<RouterLoad> counted;
  const bool counts = router_statistics != nullptr && grad_enabled(), only_counts = loads == nullptr;
  if (counts && only_counts) loads = &counted;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    RouterLoad load;
    const auto index = static_cast<std::int64_t>(i);
    const bool done = context.wanted_only && wanted_rows(context.segments) == 0;
    if (done) {
      const LeasedBlock unused(lease, index);
      continue;
    }
    if (inputs.defined()) context.layer_input = wanted(select(inputs, 2, index), context);
    context.shared = &shared[config.slides(index) ? 1 : 0];
    context.wanted_only = cached && i >= last;
    run_layer(i, x, context, loads != nullptr && layers[i]->experts != nullptr ? &load : nullptr);
    if (load.counts.defined() && only_counts) {  // else they keep logits of all layers
      load.probability = load.probability.detach();
      load.squares = load.squares.detach();
    }
    if (load.counts.defined()) loads->push_back(std::move(load));
    if (context.wanted_only && i + 1 < layers.size() && wanted_rows(context.segments) > 0)
      context.positions = contiguous(wanted(context.positions, context));
  }
  if (counts) router_statistics->add(*loads);
  if (cached && wanted_rows(context.segments) == 0)
    return Tensor::empty({1, 0, config.hidden_size}, x.sum.dtype(), x.sum.device());
  if (streams != nullptr) return norm(streams->merged(x.sum));
  return norm(x).tensor();
}

void LanguageModel::run_layer(std::size_t i, ResidualStream& x, const DecoderContext& context,
                              RouterLoad* load) const {
  if (recompute == Recompute::full && context.segments.empty()) return run_layer_again(i, x, context, load);
  const auto index = static_cast<std::int64_t>(i);
  const LeasedBlock leased(lease, index);
  (*layers[i])(x, context, index, load);
}

// The recorded function outlives this call, so it holds the context by value. All tensors that have gradients
// are its inputs or results: the residual stream, the layer's own input, keys and values that layers share.
void LanguageModel::run_layer_again(std::size_t i, ResidualStream& x, const DecoderContext& context,
                                    RouterLoad* load) const {
  const auto index = static_cast<std::int64_t>(i);
  const bool reads = config.reads_other_keys(index), gives = config.gives_keys(index);
  const bool has_input = context.layer_input.defined();
  DecoderContext kept = context;  // without what are inputs
  kept.layer_input = {};
  const auto again = [this, kept, i, index, reads, gives, has_input,
                      wanted = load != nullptr](std::span<const Tensor> in) {
    const LeasedBlock leased(lease, index);
    DecoderContext here = kept;
    std::size_t next = 1;
    if (has_input) here.layer_input = in[next++];
    SharedKeys keys;
    if (reads) keys = {in[next], in[next + 1]};
    here.shared = &keys;
    RouterLoad used;
    ResidualStream stream{.sum = in.front(), .update = {}};
    (*layers[i])(stream, here, index, wanted ? &used : nullptr);
    std::vector<Tensor> out{stream.value()};
    if (gives) out.insert(out.end(), {keys.keys, keys.values});
    if (wanted) out.insert(out.end(), {used.probability, used.counts, used.squares});
    return out;
  };
  std::vector<Tensor> inputs{x.sum};
  if (has_input) inputs.push_back(context.layer_input);
  if (reads) inputs.insert(inputs.end(), {context.shared->keys, context.shared->values});
  const std::vector<Tensor> results = checkpoint(again, inputs, layer_inputs);
  x.sum = results.front();
  if (gives) *context.shared = {results[1], results[2]};
  if (load != nullptr)
    *load = {.probability = *(results.end() - 3), .counts = *(results.end() - 2), .squares = results.back()};
}

Tensor LanguageModel::before_head(const Tensor& hidden) const {
  const Tensor x = project_out != nullptr ? (*project_out)(hidden) : hidden;
  return config.logit_scale == 1 ? x : x * config.logit_scale;
}

Tensor LanguageModel::head_input(const Tensor& hidden) const {
  const Tensor x = before_head(hidden);
  if (!head_bias.value.defined()) return x;
  const Tensor one = Tensor::zeros(x.shape().with(x.rank() - 1, 1), x.dtype(), x.device()) + 1.0;
  return concat(std::vector<Tensor>{x, one}, -1);
}

Tensor LanguageModel::head_matrix(DType dtype) const {
  const Tensor weight = head().effective(dtype);
  if (!head_bias.value.defined()) return weight;
  return concat(std::vector<Tensor>{weight, reshape(to(head_bias.value, dtype), {-1, 1})}, 1);
}

Tensor LanguageModel::logits(const Tensor& hidden) const {
  if (leader != nullptr) leader->lead_logits(hidden);
  return led_pass(leader.get(), [&] {
    Tensor x = head()(before_head(hidden));
    if (head_bias.value.defined()) x = x + to(head_bias.value, x.dtype());
    const double cap = config.final_logit_softcapping;
    return cap > 0 ? pointwise([cap](const auto& logit) { return tanh(logit / cap) * cap; }, x) : x;
  });
}

Tensor LanguageModel::loss(const DecoderInput& input, const Tensor& targets,
                           const LossOptions& options) const {
  LinearCrossEntropyLoss fused;
  fused.denominator = options.denominator;
  fused.z_loss = options.z_loss;
  fused.softcap = static_cast<float>(config.final_logit_softcapping);
  std::vector<RouterLoad> loads;
  const Tensor states = head_input(hidden(input, options.asks_routers() ? &loads : nullptr));
  const ModuleScope scope(head());
  const Tensor loss = linear_cross_entropy(states, head_matrix(states.dtype()), targets, fused);
  return with_router_losses(loss, loads, input.tokens.numel(), options);
}

Tensor with_router_losses(const Tensor& loss, std::span<const RouterLoad> loads, std::int64_t tokens,
                          const LossOptions& options) {
  if (loads.empty() || !options.asks_routers()) return loss;
  Tensor added;
  if (options.router_aux_loss > 0)
    added = load_balancing_loss(loads, tokens) * static_cast<double>(options.router_aux_loss);
  if (options.router_z_loss > 0) {
    const Tensor z = router_z_loss(loads, tokens) * static_cast<double>(options.router_z_loss);
    added = added.defined() ? added + z : z;
  }
  return loss + (options.router_share.defined() ? added * options.router_share : added);
}

void LanguageModel::set_mlp_chunk(std::int64_t tokens) {
  for (const auto& layer : layers) {
    if (layer->mlp != nullptr) layer->mlp->chunk = tokens;
    if (layer->experts != nullptr) layer->experts->chunk = tokens;
  }
}

void LanguageModel::visit(ParamVisitor& v) {
  v("model.embed_tokens", embed_tokens);
  v("model.embed_positions", embed_positions);
  v("model.embed_layernorm", embed_layernorm);
  v("model.project_in", project_in);
  v("model.project_out", project_out);
  v("model", streams);
  v("model", per_layer_inputs);
  v("model.layers", layers);
  v("model.norm", norm);
  v("lm_head.weight", lm_head);
  v("lm_head.bias", head_bias);
}

}  // namespace ingot
