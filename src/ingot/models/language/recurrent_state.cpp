#include "ingot/models/language/recurrent_state.h"

#include <algorithm>

#include "ingot/autograd/grad_mode.h"
#include "ingot/core/memory.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

constexpr std::int64_t kRoomBehind = 16;  // steps between two moves at least

}  // namespace

RecurrentState::RecurrentState(const LanguageConfig& config, Device device)
    : seen_(config.conv_L_cache - 1), rows_(seen_ + kRollback + kRoomBehind) {
  if (!config.is_recurrent()) return;
  const MemoryTagScope tag(MemoryTag::kv_cache);
  for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer)
    layers_.push_back(config.keeps_state(layer)
                          ? Tensor::zeros({rows_, config.conv_channels()}, DType::f32, device)
                          : Tensor());
  const auto [heads, size, width] = config.state_size();
  const Shape state{1, heads, size, width};
  for (std::int64_t layer = 0; config.keeps_matrices() && layer < config.num_hidden_layers; ++layer)
    scans_.push_back(config.keeps_state(layer) ? Tensor::zeros(state, DType::f32, device) : Tensor());
}

Tensor RecurrentState::past(std::int64_t layer, std::int64_t length) const {
  return unsqueeze(narrow(layers_[static_cast<std::size_t>(layer)], 0, length - first_, seen_), 0);
}

// The first token whose step is kept once so many more have come.
std::int64_t RecurrentState::first_after(std::int64_t length, std::int64_t tokens) const {
  if (layers_.empty() || seen_ + length - first_ + tokens <= rows_) return first_;
  return std::max(length + tokens - kRollback, first_);
}

void RecurrentState::append(std::int64_t layer, std::int64_t length, const Tensor& steps) {
  between_layers_ = true;
  const NoGrad no_grad;
  const Tensor& rows = layers_[static_cast<std::size_t>(layer)];
  const std::int64_t count = steps.dim(0), first = first_after(length, count);
  const std::int64_t begin = first - seen_;  // the token of the first row from now on
  const std::int64_t kept = std::max<std::int64_t>(length - begin, 0);
  if (first > first_ && kept > 0)
    copy_(narrow(rows, 0, 0, kept), clone(narrow(rows, 0, first - first_, kept)));
  const std::int64_t skipped = std::max<std::int64_t>(begin - length, 0);
  copy_(narrow(rows, 0, kept, count - skipped), narrow(steps, 0, skipped, count - skipped));
}

void RecurrentState::reset() {
  first_ = length_ = 0;
  between_layers_ = false;
  const NoGrad no_grad;
  for (const Tensor& scan : scans_)
    if (scan.defined()) zero_(scan);
  for (const Tensor& rows : layers_)
    if (rows.defined()) zero_(narrow(rows, 0, 0, seen_));
}

void RecurrentState::copy(const RecurrentState& from) {
  const NoGrad no_grad;
  for (std::size_t i = 0; i < layers_.size(); ++i)
    if (layers_[i].defined()) copy_(layers_[i], from.layers_[i]);
  for (std::size_t i = 0; i < scans_.size(); ++i)
    if (scans_[i].defined()) copy_(scans_[i], from.scans_[i]);
  first_ = from.first_;
  length_ = from.length_;
  between_layers_ = from.between_layers_;
}

std::size_t RecurrentState::nbytes() const {
  std::size_t bytes = 0;
  for (const Tensor& rows : layers_)
    if (rows.defined()) bytes += rows.nbytes();
  for (const Tensor& scan : scans_)
    if (scan.defined()) bytes += scan.nbytes();
  return bytes;
}

}  // namespace ingot
