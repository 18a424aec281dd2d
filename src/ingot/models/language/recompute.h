#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ingot {

/// What a backward pass computes again instead of keeping it from the forward pass. Losses and gradients have
/// the same bits each way.
enum class Recompute : std::uint8_t {
  none,
  selective,  ///< what is cheap (SelectiveRecompute, autograd/grad_mode.h): no matmul, no attention
  full,       ///< whole layers, of which only the inputs are kept
};

/// As configurations say it: "false", "selective", "true".
std::string_view name(Recompute recompute);
/// What parse_recompute() takes: those three, and "full" for "true".
const std::vector<std::string>& recompute_words();
/// Takes other words for true and false (yes, no, ...), too. InvalidConfig for the rest, which names `key`.
Recompute parse_recompute(std::string_view word, std::string_view key = "recompute");

}  // namespace ingot
