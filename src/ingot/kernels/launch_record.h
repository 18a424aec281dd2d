#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "ingot/kernels/launch_work.h"

namespace ingot::kernels {

/// What a trace keeps of a launch until it is written: implementation, operands' types and shapes, FLOPs, as
/// numbers, and names by address. Equal bytes are equal launches.
class LaunchRecord {
 public:
  LaunchRecord(const char* implementation, const LaunchWork& work);
  std::span<const std::byte> bytes() const { return std::as_bytes(std::span(words_).first(count_)); }
  /// describe() of what `bytes` recorded.
  static std::string describe(std::span<const std::byte> bytes);

 private:
  static constexpr std::size_t kHead = 4;         // implementation, FLOPs, tensors, operands
  static constexpr std::size_t kOfAnOperand = 2;  // name; type, rank and broadcast axes
  void put(std::uint64_t word) { words_[count_++] = word; }

  std::array<std::uint64_t, kHead + LaunchWork::kMostOperands*(kOfAnOperand + kMaxViewRank)> words_;
  std::size_t count_ = 0;
};

}  // namespace ingot::kernels
