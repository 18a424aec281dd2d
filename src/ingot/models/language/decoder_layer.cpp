#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "ingot/models/language/decoder.h"
#include "ingot/models/language/decoder_init.h"
#include "ingot/models/language/sparse_gate.h"
#include "ingot/nn/module_scope.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/norm.h"
#include "ingot/ops/view.h"

namespace ingot {

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

std::vector<ProjectionGroup::Layer> mlp_inputs(const LanguageConfig& c, std::int64_t layer) {
  const LinearOptions options =
      decoder_linear(c.hidden_size, c.mlp_width(layer), c.mlp_bias, decoder_weight_init(c));
  if (!is_gated(c.mlp)) return {{"up_proj", options}};
  return {{"gate_proj", options}, {"up_proj", options}};
}

}  // namespace

Mlp::Mlp(const ParamSource& source, const LanguageConfig& c, std::int64_t layer)
    : in_proj(source, mlp_inputs(c, layer)),
      down_proj(source.scope("down_proj"),
                decoder_linear(c.mlp_width(layer), c.hidden_size, c.mlp_bias, decoder_residual_init(c))),
      act_fn(c.mlp == MlpKind::xielu ? std::make_unique<Xielu>(source.scope("act_fn")) : nullptr),
      kind(c.mlp),
      gate_multiplier(c.mlp_gate_multiplier),
      down_multiplier(c.mlp_down_multiplier),
      cutoff(c.sparsity(layer) > 0 ? std::optional(normal_quantile(c.sparsity(layer))) : std::nullopt) {}

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
  if (cutoff.has_value()) {
    const ModuleScope scope(down_proj.weight, 2);
    return down_proj(LinearInput(in_proj.each(x), [this](std::span<const Tensor> rows) {
      return activate(kind, std::vector<Tensor>{above_cutoff(rows[0], *cutoff), rows[1]});
    }));
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

ExpertNorms::ExpertNorms(const ParamSource& source, const LanguageConfig& c)
    : post_feedforward_layernorm_1(source.scope("post_feedforward_layernorm_1"), c),
      pre_feedforward_layernorm_2(source.scope("pre_feedforward_layernorm_2"), c),
      post_feedforward_layernorm_2(source.scope("post_feedforward_layernorm_2"), c) {}

void ExpertNorms::visit(ParamVisitor& v) {
  v("post_feedforward_layernorm_1", post_feedforward_layernorm_1);
  v("pre_feedforward_layernorm_2", pre_feedforward_layernorm_2);
  v("post_feedforward_layernorm_2", post_feedforward_layernorm_2);
}

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
      altup(c.altup_num_inputs > 0 ? std::make_unique<AltUp>(source.scope("altup"), c) : nullptr),
      laurel(c.altup_num_inputs > 0 ? std::make_unique<Laurel>(source.scope("laurel"), c) : nullptr),
      layer_input_gate(c.hidden_size_per_layer_input > 0 ? std::make_unique<LayerInputGate>(source, c)
                                                         : nullptr),
      layer_scalar(c.layer_scalar
                       ? source.take("layer_scalar", {1}, init::kOnes, {.decay = false, .trainable = false})
                       : Parameter{}),
      placement_(c.norm_placement),
      residual_multiplier_(c.residual_multiplier),
      attention_in_(c.attention_in_multiplier),
      attention_out_(c.attention_out_multiplier),
      ssm_out_(c.ssm_out_multiplier) {
  if (c.is_sparse(index)) experts = std::make_unique<MoeMlp>(source.scope("mlp"), c);
  if (c.has_mlp(index) && (experts == nullptr || c.experts_beside_mlp))
    mlp = std::make_unique<Mlp>(source.scope("mlp"), c, index);
  if (experts != nullptr && mlp != nullptr) expert_norms = std::make_unique<ExpertNorms>(source, c);
}

void DecoderLayer::operator()(ResidualStream& x, const DecoderContext& context, std::int64_t layer,
                              RouterLoad* load) const {
  const ModuleScope scope(mixer_output(), 3);
  if (altup != nullptr) return among_streams(x, context, layer);
  if (placement_ == NormPlacement::sum) return norms_of_sums(x, context, layer);
  const bool parallel = placement_ == NormPlacement::parallel || placement_ == NormPlacement::parallel_two;
  parallel ? side_by_side(x, context, layer, load) : one_after_another(x, context, layer, load);
  finish(x, context);
}

void DecoderLayer::among_streams(ResidualStream& x, const DecoderContext& context, std::int64_t layer) const {
  const Shape all = x.sum.shape();
  const Tensor predicted = altup->predict(reshape(x.sum, {all[0], all[1], altup->streams, -1}));
  const Tensor before = altup->active(predicted), normed = (*input_layernorm)(before);
  const Tensor mixed = mix(LinearInput(normed), context, layer);
  if (!mixed.defined()) return;
  const Tensor beside = (*laurel)(wanted(normed, context));
  const Tensor sum = wanted(before, context) + (*post_attention_layernorm)(mixed);
  const Tensor attended = (sum + beside) * std::sqrt(0.5);
  const Tensor made = attended + (*post_feedforward_layernorm)(feed_forward(
                                     LinearInput((*pre_feedforward_layernorm)(attended)), nullptr));
  const Tensor corrected = altup->correct(wanted(predicted, context), made);
  const Tensor own = (*layer_input_gate)(altup->output(corrected), wanted(context.layer_input, context));
  const Tensor others = narrow(corrected, 2, 1, altup->streams - 1) + unsqueeze(own, 2);
  const Tensor streams = concat(std::vector<Tensor>{narrow(corrected, 2, 0, 1), others}, 2);
  x = {.sum = reshape(streams, {all[0], made.dim(1), all[2]}), .update = {}};
}

void DecoderLayer::finish(ResidualStream& x, const DecoderContext& context) const {
  if (context.wanted_only && wanted_rows(context.segments) == 0) return;
  if (layer_input_gate != nullptr) {
    const Tensor before = x.value();
    x = {.sum = before, .update = (*layer_input_gate)(before, wanted(context.layer_input, context))};
  }
  if (layer_scalar) x = {.sum = x.value() * to(layer_scalar.value, x.sum.dtype()), .update = {}};
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
  if (expert_norms != nullptr) {
    x.update = (*post_feedforward_layernorm)(mlp_and_experts(x, load));
    return;
  }
  x.update = (*post_feedforward_layernorm)(
      feed_forward(post ? LinearInput(x.sum) : (*pre_feedforward_layernorm)(x), load));
}

Tensor DecoderLayer::mlp_and_experts(ResidualStream& x, RouterLoad* load) const {
  const Tensor dense = (*mlp)((*pre_feedforward_layernorm)(x));  // adds up x
  const Tensor routed = (*experts)(expert_norms->pre_feedforward_layernorm_2(x.sum), load, x.sum);
  return expert_norms->post_feedforward_layernorm_1(dense) +
         expert_norms->post_feedforward_layernorm_2(routed);
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
  if (conv != nullptr) return conv->out_proj.weight;
  return mlp != nullptr ? mlp->down_proj.weight : experts->router.gate.weight;
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
  v("", expert_norms);
  v("altup", altup);
  v("laurel", laurel);
  v("", layer_input_gate);
  v("layer_scalar", layer_scalar);
}

}  // namespace ingot
