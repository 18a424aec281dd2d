#include "ingot/models/language/moe.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "ingot/models/language/decoder_init.h"
#include "ingot/nn/module_scope.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/checkpoint.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/grouped_linear.h"
#include "ingot/ops/index.h"
#include "ingot/ops/norm.h"
#include "ingot/ops/pointwise.h"
#include "ingot/ops/reduce.h"
#include "ingot/ops/topk.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

// How many pairs each expert got, f32 [experts].
Tensor counts_of(const ExpertRouting& routing) {
  const Tensor offsets = to(routing.offsets, DType::f32);
  return slice(offsets, 0, 1) - slice(offsets, 0, 0, offsets.dim(0) - 1);
}

}  // namespace

Tensor load_balancing_loss(std::span<const RouterLoad> layers, std::int64_t tokens) {
  Tensor probability = layers.front().probability, counts = layers.front().counts;
  for (const RouterLoad& layer : layers.subspan(1)) {
    probability = probability + layer.probability;
    counts = counts + layer.counts;
  }
  const auto rows = static_cast<double>(tokens * static_cast<std::int64_t>(layers.size()));
  const auto experts = static_cast<double>(counts.numel());
  return sum(counts.detach() * probability) * (experts / (rows * rows));
}

Tensor router_z_loss(std::span<const RouterLoad> layers, std::int64_t tokens) {
  Tensor squares = layers.front().squares;
  for (const RouterLoad& layer : layers.subspan(1)) squares = squares + layer.squares;
  return sum(squares) / static_cast<double>(tokens * static_cast<std::int64_t>(layers.size()));
}

namespace {

std::vector<ProjectionGroup::Layer> shared_inputs(const LanguageConfig& c) {
  const LinearOptions options =
      decoder_linear(c.hidden_size, c.shared_expert_intermediate_size, c.mlp_bias, decoder_weight_init(c));
  if (!is_gated(c.mlp)) return {{"up_proj", options}};
  return {{"gate_proj", options}, {"up_proj", options}};
}

std::unique_ptr<Linear> latent_linear(const ParamSource& source, const LanguageConfig& c, std::int64_t in,
                                      std::int64_t out, const Init& init) {
  if (c.moe_latent_size == 0) return nullptr;
  return std::make_unique<Linear>(source, decoder_linear(in, out, c.mlp_bias, init));
}

}  // namespace

SharedExpert::SharedExpert(const ParamSource& source, const LanguageConfig& c)
    : in_proj(source, shared_inputs(c)),
      down_proj(source.scope("down_proj"), decoder_linear(c.shared_expert_intermediate_size, c.hidden_size,
                                                          c.mlp_bias, decoder_residual_init(c))),
      kind(c.mlp) {}

Tensor SharedExpert::operator()(const Tensor& x) const {
  return feed_forward(LinearInput(x), in_proj, kind, down_proj);
}

void SharedExpert::visit(ParamVisitor& v) {
  in_proj.visit(v);
  v("down_proj", down_proj);
}

Router::Router(const ParamSource& source, const LanguageConfig& c)
    : gate(source, decoder_linear(c.hidden_size, c.num_experts, c.expert_bias, decoder_weight_init(c))),
      e_score_correction_bias(c.router_bias
                                  ? source.take("e_score_correction_bias", {1, c.num_experts}, init::kZeros,
                                                {.decay = false, .trainable = false, .dtype = DType::f32})
                                  : Parameter{}),
      input_scale(c.experts_beside_mlp ? source.take("scale", {c.hidden_size}, init::kOnes) : Parameter{}),
      per_expert_scale(c.experts_beside_mlp ? source.take("per_expert_scale", {c.num_experts}, init::kOnes)
                                            : Parameter{}),
      score(c.router_score),
      choices(c.num_experts_per_tok),
      groups(c.n_group),
      chosen_groups(c.topk_group),
      judges(c.group_judges),
      normalize(c.norm_topk_prob),
      ranks_logits(c.weighs_inputs),
      norm_eps(c.router_norm_eps),
      scale(c.routed_scaling_factor),
      near(2 * c.router_jitter_noise),
      input_eps(static_cast<float>(c.norm_eps)) {}

// In f32 whatever the model's dtype, as transformers does (but for phimoe, which stays in bf16 there).
Tensor Router::logits(const Tensor& x) const {
  if (!input_scale) return to(gate(x), DType::f32);
  const double root = 1 / std::sqrt(static_cast<double>(x.dim(-1)));
  return to(gate(rms_norm(x, input_scale.value, input_eps) * root), DType::f32);
}

Tensor Router::scaled(Tensor weights, const Tensor& experts) const {
  if (scale != 1) weights = weights * scale;
  if (!per_expert_scale) return weights;
  const Tensor of_experts = reshape(to(per_expert_scale.value, DType::f32), {-1, 1});
  return weights * reshape(embedding(of_experts, experts), weights.shape());
}

// A logit is near the best one where it is lower by no more than `near` times the larger of its size and
// the best.
Router::Choice Router::sparse_mixer(const Tensor& logits) const {
  const auto without = [](const Tensor& x, const Tensor& gone) { return x + log(1.0 - gone); };  // at −∞
  std::vector<Tensor> experts, weights;
  Tensor left = logits;
  for (std::int64_t i = 0; i < choices; ++i) {
    const TopK best = topk(left, 1);
    const Tensor value = best.values.detach(), all = logits.detach();
    const Tensor far = sign(relu(value - all - maximum(abs(all), value) * near));
    const Tensor weight = softmax(without(left, far));
    experts.push_back(best.indices);
    weights.push_back(gather_within(weight, 1, best.indices));
    left = without(left, sum(one_hot(best.indices, logits.dim(1)), {1}));
  }
  return {.scores = softmax(logits),
          .experts = concat(experts, 1),
          .weights = concat(weights, 1),
          .logits = logits};
}

// `ranking` [tokens, experts] with what is outside the best groups at −∞.
Tensor Router::within_best_groups(const Tensor& ranking) const {
  if (chosen_groups == groups) return ranking;
  const Tensor grouped = reshape(ranking, {ranking.dim(0), groups, -1});
  const Tensor best = topk(sum(topk(grouped, judges).values, {-1}), chosen_groups).indices;
  const Tensor kept = reshape(sum(one_hot(best, groups), {1}), {ranking.dim(0), groups, 1});
  return reshape(grouped + log(kept), ranking.shape());
}

Router::Choice Router::operator()(const Tensor& x) const {
  const Tensor raw = logits(x);
  if (score == RouterScore::sparse_mixer) return sparse_mixer(raw);
  const Tensor scores = score == RouterScore::softmax ? softmax(raw) : sigmoid(raw);
  TopK top;
  if (!e_score_correction_bias.value.defined() && chosen_groups == groups) {
    top = topk(ranks_logits ? raw : scores, choices);
    if (ranks_logits) top.values = gather_within(scores, 1, top.indices);
  } else {
    const Tensor& bias = e_score_correction_bias.value;
    const Tensor ranking = bias.defined() ? scores.detach() + bias : scores.detach();
    top.indices = topk(within_best_groups(ranking), choices).indices;
    top.values = gather_within(scores, 1, top.indices);
  }
  Tensor weights = top.values;
  if (normalize) {
    const Tensor all = sum(weights, {-1}, true);
    weights = weights / (norm_eps > 0 ? all + norm_eps : all);
  }
  return {.scores = scores, .experts = top.indices, .weights = scaled(weights, top.indices), .logits = raw};
}

void Router::visit(ParamVisitor& v) {
  gate.visit(v);
  v("e_score_correction_bias", e_score_correction_bias);
  v("scale", input_scale);
  v("per_expert_scale", per_expert_scale);
}

MoeMlp::MoeMlp(const ParamSource& source, const LanguageConfig& c)
    : router(source.scope("gate"), c),
      gate_proj(is_gated(c.mlp) ? std::make_unique<ExpertLinear>(
                                      source, "experts.gate_proj",
                                      Shape{c.num_experts, c.moe_intermediate_size, c.expert_width()},
                                      decoder_weight_init(c), c.expert_bias)
                                : nullptr),
      up_proj(source, "experts.up_proj", {c.num_experts, c.moe_intermediate_size, c.expert_width()},
              decoder_weight_init(c), c.expert_bias),
      down_proj(source, "experts.down_proj", {c.num_experts, c.expert_width(), c.moe_intermediate_size},
                decoder_residual_init(c), c.expert_bias),
      to_latent(latent_linear(source.scope("fc1_latent_proj"), c, c.hidden_size, c.moe_latent_size,
                              decoder_weight_init(c))),
      from_latent(latent_linear(source.scope("fc2_latent_proj"), c, c.moe_latent_size, c.hidden_size,
                                decoder_residual_init(c))),
      count(c.num_experts),
      limit(c.swiglu_limit),
      alpha(c.swiglu_alpha),
      kind(c.mlp),
      weighs_inputs(c.weighs_inputs),
      split(source.split("experts")) {
  if (c.shared_expert_intermediate_size == 0) return;
  shared_expert = std::make_unique<SharedExpert>(source.scope("shared_expert"), c);
  if (!c.shared_expert_gate) return;
  shared_expert_gate = std::make_unique<Linear>(
      source.scope("shared_expert_gate"),
      LinearOptions{.in = c.hidden_size, .out = 1, .bias = false, .weight_init = decoder_weight_init(c)});
}

Tensor MoeMlp::activated(const Tensor& x, const ExpertRouting& routing) const {
  if (gate_proj == nullptr) return activate(kind, std::vector<Tensor>{up_proj(x, routing)});
  const Tensor gate = (*gate_proj)(x, routing), up = up_proj(x, routing);
  if (limit == 0) return activate(kind, std::vector<Tensor>{gate, up});
  return pointwise(
      [this](const auto& g, const auto& u) {
        const auto kept = clamp(g, -std::numeric_limits<double>::infinity(), limit);
        return (clamp(u, -limit, limit) + 1.0) * kept * sigmoid(kept * alpha);
      },
      gate, up);
}

Tensor MoeMlp::outputs(const Tensor& x, const ExpertRouting& routing) const {
  if (expert_ranks == nullptr) return down_proj(activated(x, routing), routing);
  using Order = ExpertExchange::Order;
  const ExpertExchange exchange(expert_ranks, routing, by_rank ? Order::by_rank : Order::by_expert);
  return exchange.from_experts(one_by_one(exchange.to_experts(x), exchange.own()));
}

// The last first: the backward pass begins with what was made last, and so adds the first rank's gradients
// first.
Tensor MoeMlp::one_by_one(const Tensor& x, std::span<const ExpertRouting> own) const {
  const auto of_rank = [&](const Tensor& rows, const ExpertRouting& routing) {
    return down_proj(activated(rows, routing), routing);
  };
  if (own.size() == 1) return of_rank(x, own.front());
  std::vector<Tensor> results;
  std::int64_t end = x.dim(0);
  for (std::size_t rank = own.size(); rank-- > 0;) {
    const std::int64_t rows = own[rank].experts.numel();
    end -= rows;
    if (rows > 0) results.push_back(of_rank(contiguous(narrow(x, 0, end, rows)), own[rank]));
  }
  if (results.empty()) return of_rank(x, own.front());
  std::ranges::reverse(results);
  return results.size() == 1 ? results.front() : concat(results, 0);
}

std::vector<ExpertLinear*> MoeMlp::stacks() {
  std::vector<ExpertLinear*> all{&up_proj, &down_proj};
  if (gate_proj != nullptr) all.push_back(gate_proj.get());
  return all;
}

void MoeMlp::share_out(const std::shared_ptr<const ExpertRanks>& ranks, bool one_rank_at_a_time) {
  const std::int64_t own = count / ranks->size();
  for (ExpertLinear* stack : stacks()) {
    stack->keep(ranks->rank() * own, own);
    stack->adds_by_call = one_rank_at_a_time;
  }
  expert_ranks = ranks;
  by_rank = one_rank_at_a_time;
}

Tensor MoeMlp::operator()(const Tensor& x, RouterLoad* load, const Tensor& judged) const {
  const ModuleScope scope(router.gate.weight, 2);
  const Tensor tokens = reshape(x, {-1, x.dim(-1)});
  const Router::Choice choice = router(judged.defined() ? reshape(judged, tokens.shape()) : tokens);
  const Tensor& weights = weighs_inputs ? choice.scores : choice.weights;
  // Ranks may have different numbers of tokens, and have to exchange rows equally often.
  const bool in_chunks = chunk > 0 && tokens.dim(0) > chunk && expert_ranks == nullptr;
  ExpertRouting routing;
  if (!in_chunks || load != nullptr) routing = route_experts(choice.experts, count);
  if (load != nullptr)
    *load = {.probability = sum(choice.scores, {0}),
             .counts = counts_of(routing),
             .squares = sum(square(logsumexp(choice.logits)), {0}, true)};
  if (!in_chunks) return reshape(split.whole(mixed(tokens, routing, weights)), x.shape());
  const auto some = [this](std::span<const Tensor> rows) {
    const ModuleScope again(router.gate.weight, 2);
    return mixed(rows[0], route_experts(rows[1], count), rows[2]);
  };
  const std::vector<Tensor> inputs{tokens, choice.experts, weights};
  return reshape(split.whole(checkpoint_rows(some, inputs, chunk)), x.shape());
}

Tensor MoeMlp::mixed(const Tensor& tokens, const ExpertRouting& routing, const Tensor& weights) const {
  const Tensor rows = to_latent == nullptr ? tokens : (*to_latent)(tokens);
  Tensor sorted = embedding(rows, routing.tokens);
  if (weighs_inputs) {
    const Tensor scores = embedding(weights, routing.tokens);
    sorted = sorted * to(gather_within(scores, 1, reshape(routing.experts, {-1, 1})), tokens.dtype());
  }
  const Tensor results = embedding(outputs(sorted, routing), routing.positions);
  Tensor weighted = reshape(results, {tokens.dim(0), router.choices, rows.dim(1)});
  if (!weighs_inputs)
    weighted = weighted * reshape(to(weights, tokens.dtype()), {tokens.dim(0), router.choices, 1});
  Tensor all = sum(weighted, {1});
  if (from_latent != nullptr) all = (*from_latent)(all);
  if (shared_expert == nullptr) return all;
  const Tensor shared = (*shared_expert)(tokens);
  return all + (shared_expert_gate != nullptr ? shared * sigmoid((*shared_expert_gate)(tokens)) : shared);
}

void MoeMlp::visit(ParamVisitor& v) {
  v("gate", router);
  v("experts.gate_proj", gate_proj);
  v("experts.up_proj", up_proj);
  v("experts.down_proj", down_proj);
  v("fc1_latent_proj", to_latent);
  v("fc2_latent_proj", from_latent);
  v("shared_expert", shared_expert);
  v("shared_expert_gate", shared_expert_gate);
}

}  // namespace ingot
