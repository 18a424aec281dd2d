#include "ingot/ops/random.h"

#include <string>

#include "ingot/autograd/node.h"
#include "ingot/base/error.h"
#include "ingot/kernels/elementwise.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/common.h"

namespace ingot {
namespace {

thread_local RandomState state;

struct DropoutNode final : Node {
  static constexpr const char* kName = "dropout";
  double p;
  RngKey key;
  DropoutNode(double p_, RngKey key_) : p(p_), key(key_) {}
  std::string_view name() const override { return kName; }

  void backward(BackwardContext& ctx) override {
    const GradSlot dx = ctx.slot(0);
    kernels::launch(kernels::dropout, ctx.stream(),
                    {.x = ctx.grad().view(), .y = dx.view, .p = p, .key = key, .accumulate = dx.accumulate});
  }
};

void check_probability(double p) {
  INGOT_CHECK(p >= 0 && p < 1, Error("dropout: the probability must be in [0, 1), got " + std::to_string(p)));
}

void fill_random(const char* op, const Tensor& y, kernels::Distribution distribution, double a, double b,
                 RngKey key) {
  const OpScope op_scope(op, {&y});
  INGOT_CHECK(y.is_contiguous(), KernelError(op, "the tensor is not contiguous"));
  INGOT_CHECK(!grad_enabled() || !y.requires_grad(),
              Error(std::string(op) + ": the destination requires a gradient; change it under NoGrad"));
  kernels::launch(kernels::random, current_stream(y.device()),
                  {.y = y.view(), .distribution = distribution, .a = a, .b = b, .key = key});
  y.storage()->bump_version();
}

}  // namespace

RandomState random_state() { return state; }
void set_random_state(const RandomState& value) { state = value; }
RngKey next_random_key() { return {state.seed, mix_stream(state.stream, state.calls++)}; }

RandomScope::RandomScope(const RandomState& value) : previous_(state) { state = value; }
RandomScope::~RandomScope() { state = previous_; }

Tensor dropout(const Tensor& input, double p, RngKey key) {
  const OpScope op_scope("dropout", {&input});
  check_probability(p);
  if (p == 0) return input;
  const Tensor x = contiguous(input);
  Tensor y = Tensor::empty_like(x);
  kernels::launch(kernels::dropout, current_stream(x.device()),
                  {.x = x.view(), .y = y.view(), .p = p, .key = key});
  return record<DropoutNode>(y, {&x}, p, key);
}

Tensor dropout(const Tensor& x, double p) {
  check_probability(p);
  return p == 0 ? x : dropout(x, p, next_random_key());
}

void uniform_(const Tensor& y, double low, double high, RngKey key) {
  INGOT_CHECK(low <= high, Error("uniform_: the lower limit " + std::to_string(low) +
                                 " is above the upper, " + std::to_string(high)));
  fill_random("uniform_", y, kernels::Distribution::uniform, low, high, key);
}

void normal_(const Tensor& y, double mean, double deviation, RngKey key) {
  INGOT_CHECK(deviation >= 0,
              Error("normal_: the deviation must not be negative, got " + std::to_string(deviation)));
  fill_random("normal_", y, kernels::Distribution::normal, mean, deviation, key);
}

}  // namespace ingot
