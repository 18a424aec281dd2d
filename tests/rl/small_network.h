#pragma once

#include <string>

#include "ingot/nn/linear.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/view.h"
#include "ingot/rl/rollout.h"

namespace ingot::test {

/// A policy and a critic, each an MLP with two tanh layers, as CleanRL's for small games.
struct TwoMlps {
  TwoMlps(const ParamSource& source, std::int64_t in, std::int64_t hidden, std::int64_t actions)
      : policy1(source.scope("policy1"), options(in, hidden, 1.41421356)),
        policy2(source.scope("policy2"), options(hidden, hidden, 1.41421356)),
        policy3(source.scope("policy3"), options(hidden, actions, 0.01)),
        value1(source.scope("value1"), options(in, hidden, 1.41421356)),
        value2(source.scope("value2"), options(hidden, hidden, 1.41421356)),
        value3(source.scope("value3"), options(hidden, 1, 1.0)) {}
  static LinearOptions options(std::int64_t in, std::int64_t out, double gain) {
    return {.in = in, .out = out, .weight_init = init::Orthogonal{gain}, .bias_init = init::kZeros};
  }
  void visit(ParamVisitor& v) {
    v("policy1", policy1);
    v("policy2", policy2);
    v("policy3", policy3);
    v("value1", value1);
    v("value2", value2);
    v("value3", value3);
  }
  Linear policy1, policy2, policy3, value1, value2, value3;
};

class SmallNetwork : public ActorCritic {
 public:
  /// `scope`: put before its parameters' names, where another network learns beside it.
  SmallNetwork(const EnvironmentSpec& spec, std::int64_t hidden, std::uint64_t seed = 3,
               const std::string& scope = "")
      : source_(seed),
        mlps_(ParamSource(source_).scope(scope), spec.observation_size(), hidden, spec.actions) {}
  ModuleRef module() override { return mlps_; }
  ActorCriticOutput operator()(const Tensor& observations) override {
    const Tensor x = reshape(observations, {observations.dim(0), observations.numel() / observations.dim(0)});
    const Tensor logits = mlps_.policy3(tanh(mlps_.policy2(tanh(mlps_.policy1(x)))));
    const Tensor value = mlps_.value3(tanh(mlps_.value2(tanh(mlps_.value1(x)))));
    return {.logits = logits, .value = reshape(value, {x.dim(0)})};
  }

 private:
  InitSource source_;
  TwoMlps mlps_;
};

}  // namespace ingot::test
