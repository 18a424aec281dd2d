#include "ingot/train/language/step_matmuls.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/base/stopwatch.h"
#include "ingot/core/backend.h"
#include "ingot/kernels/gemm.h"
#include "ingot/kernels/scratch.h"
#include "ingot/ops/random.h"
#include "ingot/train/language/matmul_recorder.h"

namespace ingot {
namespace {

using Kind = StepMatmul::Kind;

// Long beside what a mark in the stream costs, short beside what a GPU takes to change its clock.
constexpr double kSampleSeconds = 0.02;
constexpr std::size_t kSamplesInQueue = 3;
// Deviations of operands: weights as they are initialized, activations behind norms, gradients of a mean.
constexpr double kWeight = 0.02, kActivation = 1, kGradient = 1e-4;

bool same_work(const StepMatmul& a, const StepMatmul& b) {
  const auto key = [](const StepMatmul& p) {
    return std::tuple(p.kind, p.rows, p.out, p.in, p.bias, p.gelu, p.accumulate);
  };
  return key(a) == key(b);
}

/// Points in a device's work. Where work is done when a call returns, the host's clock tells the time.
class Timeline {
 public:
  struct Point {
    DeviceClock::Mark mark = nullptr;
    double host = 0;
  };
  explicit Timeline(Device device) : clock_(backend(device).make_clock()), stream_(current_stream(device)) {}
  Point now() {
    return clock_ != nullptr ? Point{.mark = clock_->mark(stream_)} : Point{.host = watch_.seconds()};
  }
  /// Waits for both.
  double between(const Point& from, const Point& to) {
    return clock_ != nullptr ? clock_->seconds(from.mark, to.mark) : to.host - from.host;
  }
  void reuse(const Point& point) {
    if (clock_ != nullptr) clock_->reuse(point.mark);
  }

 private:
  std::unique_ptr<DeviceClock> clock_;
  Stream stream_;
  Stopwatch watch_;
};

/// Samples whose ends are in the stream, and those that the device has come to.
class SampleQueue {
 public:
  using Sample = StepMatmuls::Sample;
  SampleQueue(Device device, FunctionRef<void(const Sample&)> watch)
      : timeline_(device), watch_(watch), last_(timeline_.now()) {}

  /// Ends a sample here; waits for the earliest where there are enough of them.
  void push(double flops, std::int64_t steps, bool whole) {
    queue_.emplace_back(timeline_.now(), Sample{.flops = flops, .steps = steps, .whole = whole});
    if (queue_.size() <= kSamplesInQueue) return;
    pop();
    watch_(done_.back());
  }
  /// The time of the last event that the device is known to have reached.
  double seconds() const { return done_.empty() ? 0 : done_.back().end; }
  std::vector<Sample> take() {
    while (!queue_.empty()) pop();
    return std::move(done_);
  }

 private:
  void pop() {
    auto [point, sample] = queue_.front();
    queue_.pop_front();
    sample.begin = seconds();
    sample.end = sample.begin + timeline_.between(last_, point);
    timeline_.reuse(last_);
    last_ = point;
    done_.push_back(sample);
  }

  Timeline timeline_;
  FunctionRef<void(const Sample&)> watch_;
  Timeline::Point last_;
  std::deque<std::pair<Timeline::Point, Sample>> queue_;
  std::vector<Sample> done_;
};

}  // namespace

StepMatmuls::StepMatmuls(LanguageConfig config, std::int64_t tokens, Device device)
    : device_(device), dtype_(config.dtype) {
  config.validate();
  INGOT_CHECK(tokens > 0, InvalidConfig("tokens", fmt::format("must be at least 1, got {}", tokens)));
  INGOT_CHECK(config.num_experts == 0, NotImplemented("the matmuls of a step with experts"));
  for (const StepMatmul& matmul : matmuls_of_step(config, tokens, device)) add(matmul);
  for (const std::size_t index : order_) flops_ += matmuls_[index].flops();
  for (const StepMatmul& matmul : matmuls_) make_operands(matmul);
  flops_per_second_ = try_each();
}

void StepMatmuls::add(const StepMatmul& matmul) {
  auto found = std::ranges::find_if(matmuls_, [&](const auto& p) { return same_work(p, matmul); });
  if (found == matmuls_.end()) {
    found = matmuls_.insert(found, matmul);
  } else {
    ++found->count;
    const std::string& weight = matmul.weights.front();
    if (std::ranges::find(found->weights, weight) == found->weights.end()) found->weights.push_back(weight);
  }
  order_.push_back(static_cast<std::size_t>(found - matmuls_.begin()));
}

void StepMatmuls::make_operands(const StepMatmul& p) {
  const auto tensor = [&](const Shape& shape, double deviation) {
    Tensor x = Tensor::empty(shape, dtype_, device_);
    normal_(x, 0, deviation, {.seed = 1, .stream = drawn_++});
    return x;
  };
  auto found = std::ranges::find_if(
      operands_, [&](const Operands& o) { return o.rows == p.rows && o.out == p.out && o.in == p.in; });
  if (found == operands_.end()) {
    Operands made{.rows = p.rows, .out = p.out, .in = p.in};
    made.x = tensor({p.rows, p.in}, kActivation);
    made.weight = tensor({p.out, p.in}, kWeight);
    made.dy = tensor({p.rows, p.out}, kGradient);
    made.y = Tensor::empty({p.rows, p.out}, dtype_, device_);
    made.dx = Tensor::zeros({p.rows, p.in}, dtype_, device_);
    made.dweight = Tensor::zeros({p.out, p.in}, dtype_, device_);
    found = operands_.insert(found, std::move(made));
  }
  if (p.bias && !found->bias.defined()) {
    found->bias = tensor({p.out}, kWeight);
    found->dbias = Tensor::zeros({p.out}, dtype_, device_);
    found->partials =
        Tensor::empty({kernels::scratch_parts(device_), p.out}, accumulator_dtype(dtype_), device_);
  }
  if (p.gelu && p.kind == Kind::forward) found->argument = Tensor::empty({p.rows, p.out}, dtype_, device_);
  if (p.gelu && p.kind != Kind::forward) found->argument_backward = tensor({p.rows, p.in}, kActivation);
  operands_of_.push_back(static_cast<std::size_t>(found - operands_.begin()));
}

// The launches of ops/matmul.cpp and ops/loss.cpp.
void StepMatmuls::launch(std::size_t index) const {
  const StepMatmul& p = matmuls_[index];
  const Operands& o = operands_[operands_of_[index]];
  const Stream stream = current_stream(device_);
  const View x = o.x.view(), weight = o.weight.view(), dy = o.dy.view();
  const View bias = p.bias ? o.bias.view() : View{};
  const float beta = p.accumulate ? 1.0F : 0.0F;
  if (p.kind == Kind::forward && p.gelu) {
    kernels::launch(
        kernels::gemm_gelu, stream,
        {.a = x, .b = transposed(weight), .c = o.y.view(), .bias = bias, .before = o.argument.view()});
  } else if (p.kind == Kind::forward) {
    kernels::launch(kernels::gemm, stream, {.a = x, .b = transposed(weight), .c = o.y.view(), .bias = bias});
  } else if (p.kind == Kind::input_gradient && p.gelu) {
    kernels::launch(kernels::gemm_gelu_backward, stream,
                    {.a = dy, .b = weight, .before = o.argument_backward.view(), .c = o.dx.view()});
  } else if (p.kind == Kind::input_gradient) {
    kernels::launch(kernels::gemm, stream, {.a = dy, .b = weight, .c = o.dx.view(), .beta = beta});
  } else if (p.bias) {
    kernels::launch(kernels::linear_parameters_backward, stream,
                    {.dy = dy,
                     .x = x,
                     .dweight = o.dweight.view(),
                     .dbias = o.dbias.view(),
                     .partials = o.partials.view(),
                     .accumulate_weight = p.accumulate,
                     .accumulate_bias = p.accumulate});
  } else {
    kernels::launch(kernels::gemm, stream,
                    {.a = transposed(dy), .b = x, .c = o.dweight.view(), .beta = beta});
  }
}

void StepMatmuls::run() const {
  for (const std::size_t index : order_) launch(index);
}

// Of one of each matmul, the second time: at the first, libraries choose and pages are touched.
double StepMatmuls::try_each() const {
  Timeline timeline(device_);
  double seconds = 0;
  for (std::size_t i = 0; i < matmuls_.size(); ++i) {
    launch(i);
    const Timeline::Point begin = timeline.now();
    launch(i);
    seconds += timeline.between(begin, timeline.now()) * static_cast<double>(matmuls_[i].count);
  }
  return flops_ / std::max(seconds, 1e-9);
}

std::vector<StepMatmuls::Sample> StepMatmuls::sustain(double seconds,
                                                      FunctionRef<void(const Sample&)> watch) const {
  const double enough = flops_per_second_ * kSampleSeconds;
  const bool divides = flops_ > enough;  // a step is several samples, the last of which ends with it
  SampleQueue samples(device_, watch);
  double flops = 0;
  for (std::int64_t steps = 0; samples.seconds() < seconds;) {
    for (std::size_t i = 0; i < order_.size(); ++i) {
      launch(order_[i]);
      flops += matmuls_[order_[i]].flops();
      const bool whole = i + 1 == order_.size();
      if (whole) ++steps;
      const bool ends = divides ? whole || flops >= enough : whole && flops >= enough;
      if (ends) samples.push(std::exchange(flops, 0), steps, whole);
    }
  }
  return samples.take();
}

std::vector<double> StepMatmuls::time_each(double seconds) const {
  std::vector<double> total(matmuls_.size());
  std::int64_t passes = 0;
  Timeline timeline(device_);
  for (const Stopwatch watch; passes == 0 || watch.seconds() < seconds; ++passes) {
    std::vector<Timeline::Point> points{timeline.now()};
    for (const std::size_t index : order_) {
      launch(index);
      points.push_back(timeline.now());
    }
    for (std::size_t i = 0; i < order_.size(); ++i)
      total[order_[i]] += timeline.between(points[i], points[i + 1]);
    for (const Timeline::Point& point : points) timeline.reuse(point);
  }
  for (std::size_t i = 0; i < total.size(); ++i) total[i] /= static_cast<double>(passes * matmuls_[i].count);
  return total;
}

}  // namespace ingot
