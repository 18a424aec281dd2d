#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "ingot/kernels/cpu/attention_tile.h"
#include "ingot/kernels/cpu/scan_rows.h"
#include "ingot/kernels/delta_rule.h"

namespace ingot::kernels::cpu {

// CPU only: on a GPU a chunk pays where its matmuls run on tensor cores, which have no f32 operands; step by
// step (kernels/cuda/sequence/delta_rule.cu) f32 keeps its digits, and a row of a state stays in registers.

/// Steps that the chunked gated delta rule takes at once.
inline constexpr std::int64_t kDeltaChunk = 64;
/// Fewer steps than these go one by one: the matrices of a chunk would cost more than they save.
inline constexpr std::int64_t kFewDeltaSteps = 16;
/// Columns of a matrix of steps by steps, an odd number of cache lines apart.
inline constexpr std::int64_t kDeltaStride = kDeltaChunk + kColumns;

/// Steps [begin, end) of one document within a chunk. fresh: the state before them is zero.
struct DeltaPiece {
  std::int64_t begin = 0, end = 0;
  bool fresh = false;
  std::int64_t steps() const { return end - begin; }
};

/// The documents' parts of steps [begin, end), at most a chunk.
class DeltaPieces {
 public:
  DeltaPieces(const ScanHead& at, const View& starts, std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end;) {
      std::int64_t next = t + 1;
      while (next < end && !at.begins(starts, next)) ++next;
      list_[size_++] = {t, next, at.begins(starts, t)};
      t = next;
    }
  }
  std::size_t size() const { return size_; }
  const DeltaPiece& operator[](std::size_t i) const { return list_[i]; }

 private:
  std::array<DeltaPiece, kDeltaChunk> list_{};
  std::size_t size_ = 0;
};

/// Takes arrays of whole cache lines from one piece of scratch memory.
class FloatArena {
 public:
  explicit FloatArena(float* memory) : next_(memory) {}
  float* take(std::int64_t count) {
    float* const from = next_;
    next_ += round_up(count, kColumns);
    return from;
  }

 private:
  float* next_;
};

/// Rows [first, last) of a head's state through the steps from `begin` on, one by one (simd/delta_rule.cpp).
void delta_rule_rows(const DeltaRuleArgs& args, const ScanHead& head, std::int64_t first, std::int64_t last,
                     std::int64_t begin);

/// Called by register_delta_rule_simd(): of many steps chunks are faster than one step after another.
void register_delta_chunks_simd();
void register_delta_chunks_backward_simd();

/// Whether chunks pay and their matrices have whole vectors.
template <class Args>
bool takes_delta_chunks(const Args& args) {
  return args.x.dtype == DType::f32 && args.x.dim(1) >= kFewDeltaSteps && args.x.dim(3) % kColumns == 0 &&
         args.keys.dim(3) % kColumns == 0;
}

}  // namespace ingot::kernels::cpu
