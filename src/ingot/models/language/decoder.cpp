#include "ingot/models/language/decoder.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/models/language/decoder_init.h"
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

DecoderNorm::DecoderNorm(const ParamSource& source, const LanguageConfig& c, bool absent_)
    : weight(absent_ || c.norm == NormKind::layer_plain
                 ? Parameter{}
                 : source.take("weight", {c.hidden_size}, c.norm_unit_offset ? init::kZeros : init::kOnes)),
      bias(c.norm == NormKind::layer && !absent_ ? source.take("bias", {c.hidden_size}, init::kZeros)
                                                 : Parameter{}),
      kind(c.norm),
      eps(static_cast<float>(c.norm_eps)),
      weight_offset(c.norm_unit_offset ? 1.0F : 0.0F),
      absent(absent_) {}

Tensor DecoderNorm::layer_weight() const {
  return weight_offset == 0 ? weight.value : weight.value + static_cast<double>(weight_offset);
}

Tensor DecoderNorm::operator()(const Tensor& x) const {
  if (absent) return x;
  const ModuleScope scope(weight);
  if (kind == NormKind::rms) return rms_norm(x, weight.value, eps, weight_offset);
  return layer_norm(x, layer_weight(), bias.value, eps);
}

NormedSum DecoderNorm::add(const Tensor& sum, const Tensor& update, const Tensor& to) const {
  if (absent) {
    const Tensor total = sum + update;
    if (to.defined()) copy_(to, total);
    return {.sum = total, .normed = total};
  }
  const ModuleScope scope(weight);
  if (kind == NormKind::rms) return add_rms_norm(sum, update, weight.value, eps, weight_offset, to);
  return add_layer_norm(sum, update, layer_weight(), bias.value, eps, to);
}

namespace {

// x's update added to its sum, and the norm of that, in one pass over the rows.
class ResidualNorm final : public RowSource {
 public:
  ResidualNorm(const DecoderNorm& norm, ResidualStream& x) : norm_(norm), x_(x) {}
  Shape shape() const override { return x_.sum.shape(); }
  Tensor all() override {
    if (!x_.update.defined()) return norm_(x_.sum);
    NormedSum added = norm_.add(x_.sum, x_.update, {});
    x_ = {.sum = std::move(added.sum), .update = {}};
    return added.normed;
  }
  void prepare() override {
    const auto matrix = [](const Tensor& x) { return x.defined() ? reshape(x, {-1, x.dim(-1)}) : x; };
    before_ = matrix(x_.sum);
    update_ = matrix(x_.update);
    if (!update_.defined()) return;
    x_ = {.sum = Tensor::empty_like(x_.sum), .update = {}};
    sum_ = matrix(x_.sum);
  }
  Tensor rows(std::int64_t begin, std::int64_t end) override {
    const auto some = [&](const Tensor& x) { return narrow(x, 0, begin, end - begin); };
    return update_.defined() ? norm_.add(some(before_), some(update_), some(sum_)).normed
                             : norm_(some(before_));
  }

 private:
  const DecoderNorm& norm_;
  ResidualStream& x_;
  Tensor before_, update_, sum_;  // as matrices, while rows are made
};

}  // namespace

LinearInput DecoderNorm::operator()(ResidualStream& x) const {
  return LinearInput(std::make_unique<ResidualNorm>(*this, x));
}

void DecoderNorm::visit(ParamVisitor& v) {
  v("weight", weight);
  v("bias", bias);
}

namespace {

std::vector<ProjectionGroup::Layer> mlp_inputs(const LanguageConfig& c) {
  const LinearOptions options =
      decoder_linear(c.hidden_size, c.intermediate_size, c.mlp_bias, decoder_weight_init(c));
  if (!is_gated(c.mlp)) return {{"up_proj", options}};
  return {{"gate_proj", options}, {"up_proj", options}};
}

}  // namespace

Mlp::Mlp(const ParamSource& source, const LanguageConfig& c)
    : in_proj(source, mlp_inputs(c)),
      down_proj(source.scope("down_proj"),
                decoder_linear(c.intermediate_size, c.hidden_size, c.mlp_bias, decoder_residual_init(c))),
      act_fn(c.mlp == MlpKind::xielu ? std::make_unique<Xielu>(source.scope("act_fn")) : nullptr),
      kind(c.mlp),
      gate_multiplier(c.mlp_gate_multiplier),
      down_multiplier(c.mlp_down_multiplier) {}

Tensor Mlp::operator()(const LinearInput& x) const {
  if (chunk == 0 || x.rows() <= chunk) return whole(x);
  return checkpoint_rows([this](const Tensor& rows) { return whole(rows); }, x.tensor(), chunk);
}

Tensor Mlp::whole(const LinearInput& x) const {
  if (act_fn != nullptr) {
    const ModuleScope scope(down_proj.weight, 2);
    return down_proj(LinearInput(in_proj.each(x),
                                 [this](std::span<const Tensor> rows) { return (*act_fn)(rows.front()); }));
  }
  if (gate_multiplier == 1 && down_multiplier == 1) return feed_forward(x, in_proj, kind, down_proj);
  const std::vector<Tensor> parts = in_proj.each(x);  // Falcon H1's, which are SwiGLU
  return down_proj(silu_mul(parts[0] * gate_multiplier, parts[1])) * down_multiplier;
}

void Mlp::visit(ParamVisitor& v) {
  in_proj.visit(v);
  v("down_proj", down_proj);
  v("act_fn", act_fn);
}

namespace {

std::unique_ptr<DecoderNorm> norm_if(bool wanted, const ParamSource& source, const char* name,
                                     const LanguageConfig& c) {
  return wanted ? std::make_unique<DecoderNorm>(source.scope(name), c) : nullptr;
}

}  // namespace

DecoderLayer::DecoderLayer(const ParamSource& source, const LanguageConfig& c, std::int64_t index)
    : input_layernorm(norm_if(c.norm_placement != NormPlacement::post, source, "input_layernorm", c)),
      self_attn(c.attends(index) ? std::make_unique<Attention>(source.scope("self_attn"), c, index)
                                 : nullptr),
      conv(c.convolves(index) ? std::make_unique<ShortConv>(source.scope("conv"), c) : nullptr),
      mamba(c.scans(index) ? std::make_unique<Mamba>(source.scope("mamba"), c) : nullptr),
      linear_attn(c.corrects(index) ? std::make_unique<DeltaNet>(source.scope("linear_attn"), c) : nullptr),
      post_attention_layernorm(
          norm_if(c.norm_placement != NormPlacement::parallel && c.has_mlp(index) && !c.single_blocks, source,
                  "post_attention_layernorm", c)),
      pre_feedforward_layernorm(
          norm_if(c.norm_placement == NormPlacement::sandwich, source, "pre_feedforward_layernorm", c)),
      post_feedforward_layernorm(norm_if(c.has_post_norms(), source, "post_feedforward_layernorm", c)),
      placement_(c.norm_placement),
      residual_multiplier_(c.residual_multiplier),
      attention_in_(c.attention_in_multiplier),
      attention_out_(c.attention_out_multiplier),
      ssm_out_(c.ssm_out_multiplier) {
  if (c.is_sparse(index)) {
    experts = std::make_unique<MoeMlp>(source.scope("mlp"), c);
  } else if (c.has_mlp(index)) {
    mlp = std::make_unique<Mlp>(source.scope("mlp"), c);
  }
}

void DecoderLayer::operator()(ResidualStream& x, const DecoderContext& context, std::int64_t layer,
                              RouterLoad* load) const {
  const ModuleScope scope(mixer_output(), 3);
  if (placement_ == NormPlacement::sum) return norms_of_sums(x, context, layer);
  const bool parallel = placement_ == NormPlacement::parallel || placement_ == NormPlacement::parallel_two;
  return parallel ? side_by_side(x, context, layer, load) : one_after_another(x, context, layer, load);
}

void DecoderLayer::norms_of_sums(ResidualStream& x, const DecoderContext& context, std::int64_t layer) const {
  const Tensor mixed = mix(LinearInput(x.sum), context, layer);
  if (!mixed.defined()) return;
  const Tensor before = contiguous(wanted(x.sum, context));
  const Tensor between = input_layernorm->add(before, scaled(mixed), {}).normed;
  const Tensor update = scaled(feed_forward(LinearInput(between), nullptr));
  x = {.sum = post_attention_layernorm->add(between, update, {}).normed, .update = {}};
}

void DecoderLayer::one_after_another(ResidualStream& x, const DecoderContext& context, std::int64_t layer,
                                     RouterLoad* load) const {
  if (self_attn == nullptr && conv == nullptr && mamba == nullptr && linear_attn == nullptr)
    return mlp_alone(x, context, load);
  const bool post = placement_ == NormPlacement::post;
  if (post) x = {.sum = x.value(), .update = {}};
  const Tensor mixed = mix(post ? LinearInput(x.sum) : (*input_layernorm)(x), context, layer);
  if (!mixed.defined()) return;
  x.sum = contiguous(wanted(x.sum, context));
  if (mlp == nullptr && experts == nullptr) {
    x.update = scaled(mixed);
    return;
  }
  if (!post && post_feedforward_layernorm == nullptr) {
    x.update = scaled(mixed);
    x.update = scaled(feed_forward((*post_attention_layernorm)(x), load));
    return;
  }
  x.update = (*post_attention_layernorm)(mixed);
  if (post) x = {.sum = x.value(), .update = {}};
  x.update = (*post_feedforward_layernorm)(
      feed_forward(post ? LinearInput(x.sum) : (*pre_feedforward_layernorm)(x), load));
}

void DecoderLayer::mlp_alone(ResidualStream& x, const DecoderContext& context, RouterLoad* load) const {
  if (context.wanted_only && wanted_rows(context.segments) == 0) return;
  if (context.wanted_only) x = {.sum = contiguous(wanted(x.value(), context)), .update = {}};
  x.update = scaled(feed_forward((*input_layernorm)(x), load));
}

void DecoderLayer::side_by_side(ResidualStream& x, const DecoderContext& context, std::int64_t layer,
                                RouterLoad* load) const {
  x = {.sum = x.value(), .update = {}};
  const Tensor normed = (*input_layernorm)(x.sum);
  const Tensor mixed = mix(LinearInput(normed), context, layer);
  if (!mixed.defined()) return;
  x.sum = contiguous(wanted(x.sum, context));
  const Tensor other = post_attention_layernorm == nullptr ? contiguous(wanted(normed, context))
                                                           : (*post_attention_layernorm)(x.sum);
  x.update = scaled(mixed + feed_forward(LinearInput(other), load));
}

const LinearWeight& DecoderLayer::mixer_output() const {
  if (self_attn != nullptr) return self_attn->o_proj.weight;
  if (linear_attn != nullptr) return linear_attn->out_proj.weight;
  if (mamba != nullptr) return mamba->out_proj.weight;
  return conv != nullptr ? conv->out_proj.weight : mlp->down_proj.weight;
}

Tensor DecoderLayer::mix(const LinearInput& x, const DecoderContext& context, std::int64_t layer) const {
  if (self_attn != nullptr && mamba != nullptr) {
    const auto times = [](const Tensor& t, double by) { return by == 1 || !t.defined() ? t : t * by; };
    const Tensor scanned = times((*mamba)(x, context, layer), ssm_out_);
    const Tensor attended =
        times((*self_attn)(times(x.tensor(), attention_in_), context, layer), attention_out_);
    return scanned.defined() ? scanned + attended : scanned;
  }
  if (self_attn != nullptr) return (*self_attn)(x, context, layer);
  if (linear_attn != nullptr) return (*linear_attn)(x, context, layer);
  return conv != nullptr ? (*conv)(x, context, layer) : (*mamba)(x, context, layer);
}

Tensor DecoderLayer::feed_forward(const LinearInput& x, RouterLoad* load) const {
  return experts != nullptr ? (*experts)(x.tensor(), load) : (*mlp)(x);
}

Tensor DecoderLayer::scaled(Tensor update) const {
  return residual_multiplier_ == 1 ? update : update * residual_multiplier_;
}

void DecoderLayer::visit(ParamVisitor& v) {
  v("input_layernorm", input_layernorm);
  v("self_attn", self_attn);
  v("conv", conv);
  v("mamba", mamba);
  v("linear_attn", linear_attn);
  v("post_attention_layernorm", post_attention_layernorm);
  v("pre_feedforward_layernorm", pre_feedforward_layernorm);
  v("post_feedforward_layernorm", post_feedforward_layernorm);
  v("mlp", mlp);
  v("mlp", experts);
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
  if (!config.embedding_scale) return x;
  // Gemma's programs round the factor to the embeddings' dtype.
  const auto factor = static_cast<float>(std::sqrt(static_cast<double>(config.hidden_size)));
  if (embedded.dtype() == DType::bf16) return x * static_cast<double>(static_cast<float>(bf16(factor)));
  if (embedded.dtype() == DType::f16) return x * static_cast<double>(static_cast<float>(f16(factor)));
  return x * static_cast<double>(factor);
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
  if (lease != nullptr) lease->begin();
  for (std::size_t i = 0; i < layers.size(); ++i) {
    RouterLoad load;
    context.wanted_only = !context.segments.empty() && i + 1 == layers.size();
    run_layer(i, x, context, loads != nullptr && layers[i]->experts != nullptr ? &load : nullptr);
    if (load.counts.defined()) loads->push_back(std::move(load));
  }
  if (!context.segments.empty() && wanted_rows(context.segments) == 0)
    return Tensor::empty(x.sum.shape().with(1, 0), x.sum.dtype(), x.sum.device());
  return norm(x).tensor();
}

void LanguageModel::run_layer(std::size_t i, ResidualStream& x, const DecoderContext& context,
                              RouterLoad* load) const {
  const auto index = static_cast<std::int64_t>(i);
  if (recompute != Recompute::full || !context.segments.empty()) {
    const LeasedBlock leased(lease, index);
    return (*layers[i])(x, context, index, load);
  }
  // The recorded function outlives this call, so it holds the context by value. One tensor goes in and one
  // comes out, as both are kept.
  const auto again = [this, context, i, index, wanted = load != nullptr](const Tensor& in) {
    const LeasedBlock leased(lease, index);
    RouterLoad used;
    ResidualStream stream{.sum = in, .update = {}};
    (*layers[i])(stream, context, index, wanted ? &used : nullptr);
    const Tensor out = stream.value();
    return wanted ? std::vector<Tensor>{out, used.probability, used.counts} : std::vector<Tensor>{out};
  };
  const std::vector<Tensor> results = checkpoint(again, x.sum, layer_inputs);
  x.sum = results.front();
  if (load != nullptr) *load = {.probability = results[1], .counts = results[2]};
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
  const bool balanced = options.router_aux_loss > 0 && config.num_experts > 0;
  std::vector<RouterLoad> loads;
  const Tensor states = head_input(hidden(input, balanced ? &loads : nullptr));
  const ModuleScope scope(head());
  const Tensor loss = linear_cross_entropy(states, head_matrix(states.dtype()), targets, fused);
  if (loads.empty()) return loss;
  const Tensor balance =
      load_balancing_loss(loads, input.tokens.numel()) * static_cast<double>(options.router_aux_loss);
  return loss + (options.router_aux_share.defined() ? balance * options.router_aux_share : balance);
}

void LanguageModel::visit(ParamVisitor& v) {
  v("model.embed_tokens", embed_tokens);
  v("model.embed_positions", embed_positions);
  v("model.embed_layernorm", embed_layernorm);
  v("model.project_in", project_in);
  v("model.project_out", project_out);
  v("model.layers", layers);
  v("model.norm", norm);
  v("lm_head.weight", lm_head);
  v("lm_head.bias", head_bias);
}

}  // namespace ingot
