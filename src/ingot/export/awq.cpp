#include "ingot/export/awq.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/nn/feed_forward.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/matmul.h"
#include "ingot/ops/reduce.h"
#include "ingot/ops/view.h"
#include "ingot/quant/group_matrix.h"

namespace ingot {
namespace {

constexpr int kPowers = 20;
constexpr std::int64_t kMostRows = 512;  // of a matrix are enough to choose by

// Rows that stand at equal distances, at most kMostRows.
Tensor some_rows(const Tensor& w) {
  const std::int64_t rows = w.dim(0), cols = w.dim(1);
  if (rows <= kMostRows) return contiguous(w);
  Tensor chosen = Tensor::empty({kMostRows, cols});
  for (std::int64_t i = 0; i < kMostRows; ++i)
    std::copy_n(w.data<float>() + i * rows / kMostRows * cols, cols, chosen.data<float>() + i * cols);
  return chosen;
}

// The power of the inputs' root mean squares, spread evenly about 1.
std::vector<float> powers_of(const Tensor& products, double power) {
  const std::int64_t cols = products.dim(0);
  std::vector<float> s(static_cast<std::size_t>(cols));
  for (std::int64_t c = 0; c < cols; ++c) {
    const double size = std::sqrt(std::max(0.0, double{products.data<float>()[c * cols + c]}));
    s[static_cast<std::size_t>(c)] = static_cast<float>(std::max(std::pow(size, power), 1e-4));
  }
  const auto [least, most] = std::ranges::minmax(s);
  const float middle = std::sqrt(least) * std::sqrt(most);
  for (float& x : s) x /= middle;
  return s;
}

// Σ |x·(rounded − w)ᵀ|² over the text.
double output_error(const Tensor& w, const Tensor& s, const Tensor& products,
                    const quant::GroupOptions& options) {
  const Tensor off = quant::GroupMatrix::quantize(w * s, options).dequantize() / s - w;
  return sum(matmul(off, products) * off).item();
}

std::string stem_of(const std::string& name) { return name.substr(0, name.rfind('.')); }

}  // namespace

Tensor awq_factors(const std::vector<Tensor>& weights, const Tensor& products,
                   const quant::GroupOptions& options) {
  const NoGrad no_grad;
  std::vector<Tensor> rows;
  rows.reserve(weights.size());
  for (const Tensor& w : weights) rows.push_back(some_rows(w));
  Tensor best;
  double least = 0;
  for (int i = 0; i < kPowers; ++i) {
    const std::vector<float> values = powers_of(products, static_cast<double>(i) / kPowers);
    const Tensor s = Tensor::from(std::span<const float>(values), {products.dim(0)});
    double error = 0;
    for (const Tensor& w : rows) error += output_error(w, s, products, options);
    if (best.defined() && !(error < least)) continue;
    best = s;
    least = error;
  }
  return best;
}

AwqSource::AwqSource(const WeightSource& source, const LanguageConfig& config, InputProducts products,
                     const quant::GroupOptions& options)
    : WeightSource(source.location()),
      source_(source),
      products_(std::move(products)),
      options_(options),
      norm_unit_offset_(config.norm_unit_offset) {
  set_contents({source.tensors().begin(), source.tensors().end()}, source.metadata());
  const bool sandwich = config.norm_placement == NormPlacement::sandwich;
  INGOT_CHECK(
      (sandwich || config.norm_placement == NormPlacement::pre) && config.num_experts == 0 &&
          !config.latent_attention,
      NotImplemented(fmt::format("AWQ for {}: the norms in front of its layers feed other layers, too; "
                                 "--method gptq rounds it",
                                 config.model_type)));
  for (const TensorInfo& info : source.tensors()) {
    if (!info.name.ends_with(".self_attn.q_proj.weight")) continue;
    const std::string layer = info.name.substr(0, info.name.rfind(".self_attn."));
    const std::string attention = layer + ".self_attn.", mlp = layer + ".mlp.";
    add_group(
        {layer + ".input_layernorm", {attention + "q_proj", attention + "k_proj", attention + "v_proj"}});
    const std::string norm = layer + (sandwich ? ".pre_feedforward_layernorm" : ".post_attention_layernorm");
    if (!is_gated(config.mlp)) {  // what comes behind an activation cannot be scaled in front of it
      add_group({norm, {mlp + "up_proj"}});
      continue;
    }
    add_group({norm, {mlp + "gate_proj", mlp + "up_proj"}});
    add_group({mlp + "up_proj", {mlp + "down_proj"}});
  }
  INGOT_CHECK(!groups_.empty(), NotImplemented(fmt::format(
                                    "AWQ for {}: no layer has q_proj, gate_proj and down_proj behind norms; "
                                    "--method gptq rounds it",
                                    config.model_type)));
}

void AwqSource::add_group(Group group) {
  const auto has = [this](const std::string& stem) { return source_.is_available(stem + ".weight"); };
  if (!has(group.producer) || !std::ranges::all_of(group.consumers, has)) return;
  producers_[group.producer] = groups_.size();
  for (const std::string& consumer : group.consumers) consumers_[consumer] = groups_.size();
  groups_.push_back(std::move(group));
}

const Tensor& AwqSource::factors(std::size_t group) const {
  const auto known = factors_.find(group);
  if (known != factors_.end()) return known->second;
  const Group& g = groups_[group];
  const NoGrad no_grad;
  const Tensor products = products_(g.consumers.front() + ".weight");
  std::vector<Tensor> weights;
  weights.reserve(g.consumers.size());
  for (const std::string& consumer : g.consumers)
    weights.push_back(to(source_.load_tensor(consumer + ".weight"), DType::f32));
  const std::int64_t cols = weights.front().dim(1);
  const bool divides = options_.group == 0 || cols % options_.group == 0;
  if (!products.defined() || !divides)  // they stay as they are
    return factors_[group] = Tensor::zeros({cols}) + 1.0;
  return factors_[group] = awq_factors(weights, products, options_);
}

Tensor AwqSource::products_of(const std::string& weight) const {
  const NoGrad no_grad;
  const Tensor products = products_(weight);
  const auto consumer = consumers_.find(stem_of(weight));
  if (!products.defined() || consumer == consumers_.end()) return products;
  const Tensor& s = factors(consumer->second);
  return products / s / reshape(s, {-1, 1});
}

Tensor AwqSource::load(const TensorInfo& info) const {
  const Tensor stored = source_.load_tensor(info.name);
  const std::string stem = stem_of(info.name);
  const auto producer = producers_.find(stem), consumer = consumers_.find(stem);
  const bool feeds = producer != producers_.end(),
             is_fed = consumer != consumers_.end() && stored.rank() == 2;
  if (!feeds && !is_fed) return stored;
  const NoGrad no_grad;
  Tensor w = to(stored, DType::f32);
  if (is_fed) w = w * factors(consumer->second);
  if (feeds) {
    const Tensor& s = factors(producer->second);
    const bool is_norm = w.rank() == 1 && info.name.ends_with(".weight");
    if (w.rank() == 2) {
      w = w / reshape(s, {-1, 1});  // an up projection: its rows
    } else if (is_norm && norm_unit_offset_) {
      w = (w + 1.0) / s - 1.0;
    } else {
      w = w / s;
    }
  }
  return to(w, stored.dtype());
}

}  // namespace ingot
