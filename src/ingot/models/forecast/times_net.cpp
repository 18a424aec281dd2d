#include "ingot/models/forecast/times_net.h"

#include <algorithm>
#include <map>

#include "ingot/autograd/grad_mode.h"
#include "ingot/models/forecast/revin.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/complex.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/fft.h"
#include "ingot/ops/index.h"
#include "ingot/ops/pad.h"
#include "ingot/ops/reduce.h"
#include "ingot/ops/topk.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

// A same-size convolution of images [B, H, W, C]. What of the kernel would only ever meet padding is left
// out: a series of few long periods makes low images.
Tensor convolve(const Tensor& x, const ConvWeights& w) {
  Tensor weight = w.weight;
  std::array<std::int64_t, 2> padding{};
  for (const int i : {0, 1}) {
    const std::int64_t reach = weight.dim(2 + i) / 2, used = std::min(reach, x.dim(1 + i) - 1);
    if (used < reach) weight = narrow(weight, 2 + i, reach - used, 2 * used + 1);
    padding[static_cast<std::size_t>(i)] = used;
  }
  return conv2d(x, weight, w.bias, {.padding = padding, .layout = ChannelLayout::last});
}

// Windows that look at one period, and the indices (window · k + rank) of their frequencies.
struct Looks {
  std::int64_t period;
  std::vector<std::int64_t> windows, places;
};

// Who looks at what. Without `whole`, in pieces of 16, 4 and 1: a convolution is planned for every batch
// size.
std::vector<Looks> looks_at(const std::vector<std::int64_t>& frequencies, std::int64_t k, std::int64_t steps,
                            bool whole) {
  std::map<std::int64_t, std::vector<std::int64_t>> places;
  for (std::size_t i = 0; i < frequencies.size(); ++i)
    places[steps / frequencies[i]].push_back(static_cast<std::int64_t>(i));
  std::vector<Looks> all;
  for (const auto& [period, list] : places) {
    for (std::size_t at = 0; at < list.size();) {
      const std::size_t left = list.size() - at;
      const std::size_t count = whole ? left : left >= 16 ? 16 : left >= 4 ? 4 : 1;
      Looks& looks = all.emplace_back(Looks{period, {}, {}});
      for (const std::size_t end = at + count; at < end; ++at) {
        looks.windows.push_back(list[at] / k);
        looks.places.push_back(list[at]);
      }
    }
  }
  return all;
}

// All looks in one copy to the device, i64 [3, windows · k]: concatenated, their windows and their
// indices, then where among those each index stands.
Tensor order_of(const std::vector<Looks>& all, Device device) {
  std::vector<std::int64_t> windows, places;
  for (const Looks& looks : all) {
    windows.insert(windows.end(), looks.windows.begin(), looks.windows.end());
    places.insert(places.end(), looks.places.begin(), looks.places.end());
  }
  const std::size_t n = places.size();
  std::vector<std::int64_t> lists = std::move(windows);
  lists.insert(lists.end(), places.begin(), places.end());
  lists.resize(3 * n);
  for (std::size_t i = 0; i < n; ++i)
    lists[2 * n + static_cast<std::size_t>(places[i])] = static_cast<std::int64_t>(i);
  return Tensor::from(lists, {3, static_cast<std::int64_t>(n)}, device);
}

// The k strongest frequencies but 0 of each row: i64 [rows, k].
Tensor strongest(const Tensor& amplitudes, std::int64_t k) {
  const NoGrad no_grad;
  const Tensor one = Tensor::from(std::vector<std::int64_t>{1}, {1}, amplitudes.device());
  return topk(contiguous(slice(amplitudes.detach(), 1, 1)), k).indices +
         broadcast_to(one, {amplitudes.dim(0), k});
}

}  // namespace

InceptionBlock::InceptionBlock(const ParamSource& source, std::int64_t in, std::int64_t out,
                               std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t size = 2 * i + 1;
    kernels.push_back(std::make_unique<Conv2d>(
        source.scope("kernels", i),
        Conv2dModuleOptions{.in = in,
                            .out = out,
                            .kernel = {size, size},
                            .weight_init = init::Kaiming{init::Distribution::normal, init::FanMode::fan_out},
                            .bias_init = init::kZeros}));
  }
}

void InceptionBlock::visit(ParamVisitor& v) { v("kernels", kernels); }

ConvWeights InceptionBlock::merged() const {
  Tensor weight = kernels[0]->weight.value, bias = kernels[0]->bias.value;
  for (std::size_t i = 1; i < kernels.size(); ++i) {
    weight = pad(pad(weight, 2, 1, 1), 3, 1, 1) + kernels[i]->weight.value;
    bias = bias + kernels[i]->bias.value;
  }
  const double share = 1 / static_cast<double>(kernels.size());
  return {weight * share, bias * share};
}

TimesBlock::TimesBlock(const ParamSource& source, const ForecastModelConfig& c)
    : top_k_(c.top_k),
      up_(source.scope("conv.0"), c.d_model, c.d_ff, c.kernels),
      down_(source.scope("conv.2"), c.d_ff, c.d_model, c.kernels) {}

void TimesBlock::visit(ParamVisitor& v) {
  v("conv.0", up_);
  v("conv.2", down_);
}

void TimesBlock::forget_derived() {
  const std::scoped_lock lock(merging_);
  merged_ = nullptr;
}

TimesBlock::Weights TimesBlock::weights(bool training) const {
  if (training || grad_enabled()) return {up_.merged(), down_.merged()};
  const std::scoped_lock lock(merging_);
  if (merged_ == nullptr) merged_ = std::make_unique<Weights>(Weights{up_.merged(), down_.merged()});
  return *merged_;
}

Tensor TimesBlock::operator()(const Tensor& x, bool training) const {
  const std::int64_t b = x.dim(0), steps = x.dim(1), d = x.dim(2);
  const std::int64_t k = std::min(top_k_, steps / 2);
  const Tensor amplitudes = mean(complex_abs(rfft(x, 1)), {-1});  // [B, frequencies]
  const Tensor chosen =
      training ? broadcast_to(strongest(mean(amplitudes, {0}, true), k), {b, k}) : strongest(amplitudes, k);
  const Tensor frequencies = contiguous(chosen);
  const Tensor shares = reshape(softmax(gather_within(amplitudes, 1, frequencies)), {b * k, 1, 1});
  const Weights w = weights(training);
  const std::vector<Looks> all = looks_at(frequencies.to_vector<std::int64_t>(), k, steps, training);
  const Tensor order = order_of(all, x.device());
  std::vector<Tensor> seen;
  std::int64_t at = 0;
  for (const Looks& looks : all) {
    const auto count = static_cast<std::int64_t>(looks.windows.size());
    const std::int64_t rows = (steps + looks.period - 1) / looks.period;
    const auto part = [&](std::int64_t list) { return narrow(select(order, 0, list), 0, at, count); };
    const Tensor series = pad(index_select_within(x, 0, part(0)), 1, 0, rows * looks.period - steps);
    const Tensor images = reshape(series, {count, rows, looks.period, d});
    const Tensor refined = convolve(gelu_erf(convolve(images, w.up)), w.down);
    const Tensor line = slice(reshape(refined, {count, rows * looks.period, d}), 1, 0, steps);
    seen.push_back(line * index_select_within(shares, 0, part(1)));
    at += count;
  }
  const Tensor ordered = index_select_within(concat(seen), 0, select(order, 0, 2));
  return x + sum(reshape(ordered, {b, k, steps, d}), {1});
}

TimesNet::TimesNet(const ForecastModelConfig& c, const ParamSource& source)
    : ForecastModel(c),
      embedding_(source.scope("enc_embedding"), c, true),
      continuation_(source.scope("predict_linear"), {.in = c.lookback, .out = c.lookback + c.horizon}),
      norm_(source.scope("layer_norm"), {.width = c.d_model}),
      projection_(source.scope("projection"), {.in = c.d_model, .out = c.channels}) {
  for (std::int64_t i = 0; i < c.layers; ++i)
    blocks_.push_back(std::make_unique<TimesBlock>(source.scope("model", i), c));
}

Tensor TimesNet::forward(const ForecastInput& input) const {
  const ForecastModelConfig& c = config();
  const RevIN window = c.normalize_window ? RevIN::standard(input.x) : RevIN();
  Tensor x = embedding_(window.apply(input.x), input.past_marks, training());
  x = transpose(continuation_(transpose(x, 1, 2)), 1, 2);
  for (const auto& block : blocks_) x = norm_((*block)(contiguous(x), training()));
  return window.undo(transpose(projection_(slice(x, 1, c.lookback)), 1, 2));
}

void TimesNet::forget_derived() {
  for (const auto& block : blocks_) block->forget_derived();
}

void TimesNet::visit(ParamVisitor& v) {
  v("enc_embedding", embedding_);
  v("predict_linear", continuation_);
  v("model", blocks_);
  v("layer_norm", norm_);
  v("projection", projection_);
}

}  // namespace ingot
