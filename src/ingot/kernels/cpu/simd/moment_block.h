#pragma once

#include <array>
#include <cstdint>

#include "ingot/core/view.h"
#include "ingot/kernels/quant_map_8bit.h"

namespace ingot::kernels::cpu {

/// Elements [begin, begin + n) of an optimizer's moments as f32: in place, or decoded from their codes and,
/// with store(), encoded again. `begin` is a multiple of kMomentBlock.
class MomentBlock {
 public:
  static constexpr std::int64_t kMax = 1024;  ///< elements

  MomentBlock(const QuantMap8bit& map, const View& moments, const View& scales, std::int64_t begin,
              std::int64_t n);
  MomentBlock(const MomentBlock&) = delete;
  MomentBlock& operator=(const MomentBlock&) = delete;

  float* data() { return data_; }
  /// Where they are in place there is nothing to do.
  void store() const;

 private:
  const QuantMap8bit& map_;
  std::int64_t n_;
  std::uint8_t* codes_ = nullptr;  // null: in place
  float* scales_ = nullptr;
  float* data_ = nullptr;
  alignas(64) std::array<float, kMax> buffer_;
};

}  // namespace ingot::kernels::cpu
