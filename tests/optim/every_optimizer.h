#pragma once

#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/op_case.h"
#include <gtest/gtest.h>

#include "ingot/ops/cast.h"
#include "ingot/optim/muon.h"
#include "ingot/optim/optimizer.h"

namespace ingot::test {

using MakeOptimizer = std::function<std::unique_ptr<Optimizer>(std::vector<Parameter*>)>;

/// Every optimizer and format of its state, with settings under which all of the state matters.
inline std::vector<std::pair<std::string, MakeOptimizer>> every_optimizer() {
  const auto of = [](auto* type, auto config) {
    using Type = std::remove_pointer_t<decltype(type)>;
    return [config](std::vector<Parameter*> all) -> std::unique_ptr<Optimizer> {
      return std::make_unique<Type>(std::move(all), config);
    };
  };
  constexpr AdamW* kAdamW = nullptr;
  constexpr Adam* kAdam = nullptr;
  constexpr Sgd* kSgd = nullptr;
  constexpr Muon* kMuon = nullptr;
  return {{"adamw", of(kAdamW, AdamWConfig{.learning_rate = 0.01})},
          {"adamw_8bit", of(kAdamW, AdamWConfig{.learning_rate = 0.01, .moments = DType::u8})},
          {"adam", of(kAdam, AdamConfig{.learning_rate = 0.01})},
          {"sgd", of(kSgd, SgdConfig{.learning_rate = 0.01, .momentum = 0.9})},
          {"normuon", of(kMuon, MuonConfig{.learning_rate = 0.01, .normalize_rows = true})}};
}

/// A few parameters, of which one takes several windows of 16 KiB and none is a multiple of a block, and
/// their optimizer. Equal trials take equal steps.
struct Trial {
  Trial(const MakeOptimizer& make, DType dtype, Device device, const std::vector<Tensor>& start = {}) {
    const std::vector<Shape> shapes{{24, 40}, {3, 5}, {9001}, {72, 60}, {1}};
    std::vector<Parameter*> all;
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      const Tensor value = start.empty() ? to(testing::randn(shapes[i], i), dtype) : start[i];
      parameters.push_back(std::make_unique<Parameter>("p" + std::to_string(i), to(value, device), true,
                                                       shapes[i].rank() > 1));
      all.push_back(parameters.back().get());
    }
    optimizer = make(all);
  }
  void steps(std::uint64_t begin, std::uint64_t end) {
    for (std::uint64_t step = begin; step < end; ++step) {
      for (std::size_t i = 0; i < parameters.size(); ++i) {
        const Tensor& value = parameters[i]->value;
        const Tensor grad = testing::randn(value.shape(), 100 * step + i);
        value.set_grad(to(to(grad, value.dtype()), value.device()));
      }
      optimizer->step({.lr_scale = 1.0 / static_cast<double>(step + 1),
                       .grad_scale = to(Tensor::scalar(0.5F), parameters.front()->value.device())});
      optimizer->zero_grad();
    }
  }
  std::vector<Tensor> values() const {
    std::vector<Tensor> all;
    for (const auto& parameter : parameters) all.push_back(clone(to(parameter->value.detach(), kCpu)));
    return all;
  }
  /// Of the parameters and all of the state, by name.
  std::map<std::string, std::string> bits() const {
    std::map<std::string, Tensor> all = optimizer->state();
    for (const auto& parameter : parameters) all[parameter->name] = parameter->value.detach();
    std::map<std::string, std::string> result;
    for (const auto& [name, tensor] : all) {
      const Tensor host = to(tensor, kCpu);
      result[name] = std::string(host.view().as<char>(), host.nbytes());
    }
    return result;
  }

  std::vector<std::unique_ptr<Parameter>> parameters;
  std::unique_ptr<Optimizer> optimizer;
};

}  // namespace ingot::test
