#include "ingot/nn/activation.h"

#include <array>
#include <string>
#include <utility>

#include "ingot/base/error.h"
#include "ingot/ops/elementwise.h"

namespace ingot {
namespace {

// The first name of each is Ingot's own.
constexpr std::array<std::pair<std::string_view, Activation>, 13> kNames = {{
    {"identity", Activation::identity},
    {"linear", Activation::identity},
    {"relu", Activation::relu},
    {"gelu", Activation::gelu},
    {"gelu_tanh", Activation::gelu_tanh},
    {"gelu_new", Activation::gelu_tanh},
    {"gelu_pytorch_tanh", Activation::gelu_tanh},
    {"gelu_fast", Activation::gelu_tanh},
    {"silu", Activation::silu},
    {"swish", Activation::silu},
    {"mish", Activation::mish},
    {"sigmoid", Activation::sigmoid},
    {"tanh", Activation::tanh},
}};

}  // namespace

Tensor activate(Activation activation, const Tensor& x) {
  switch (activation) {
    case Activation::identity:
      return x;
    case Activation::relu:
      return relu(x);
    case Activation::gelu:
      return gelu_erf(x);
    case Activation::gelu_tanh:
      return gelu_tanh(x);
    case Activation::silu:
      return silu(x);
    case Activation::mish:
      return mish(x);
    case Activation::sigmoid:
      return sigmoid(x);
    case Activation::tanh:
      return tanh(x);
  }
  return x;
}

std::string_view name(Activation activation) {
  for (const auto& [text, value] : kNames) {
    if (value == activation) return text;
  }
  return "identity";
}

Activation parse_activation(std::string_view text, std::string_view key) {
  std::string all;
  for (const auto& [known, value] : kNames) {
    if (known == text) return value;
    all += (all.empty() ? "" : ", ") + std::string(known);
  }
  throw InvalidConfig(std::string(key),
                      "there is no activation '" + std::string(text) + "'; choose from " + all);
}

}  // namespace ingot
