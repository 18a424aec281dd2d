#pragma once

#include <cstdint>
#include <string_view>

#include "ingot/core/tensor.h"

namespace ingot {

/// The functions that a model's configuration may name.
enum class Activation : std::uint8_t { identity, relu, gelu, gelu_tanh, silu, mish, sigmoid, tanh };

Tensor activate(Activation activation, const Tensor& x);

/// "silu", "gelu_tanh", ...
std::string_view name(Activation activation);
/// Accepts Ingot's names and those of transformers' `hidden_act` ("swish", "gelu_new", "gelu_pytorch_tanh",
/// "quick_gelu" is not one). Throws InvalidConfig for `key` that lists the names otherwise.
Activation parse_activation(std::string_view text, std::string_view key = "hidden_act");

}  // namespace ingot
