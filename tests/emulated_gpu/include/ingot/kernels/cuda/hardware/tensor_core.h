#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "tests/emulated_gpu/race_check.h"

#include "ingot/kernels/cuda/device/device_code.h"
#include "ingot/kernels/cuda/device/fragments.h"

// tensor_core.h for the host's compiler: the same words, in terms of the emulator. A warp's lanes bring what
// they hold, and the last to come does the work of all.
namespace ingot::kernels::cuda {

namespace emulation {

template <class T>
float low_or_high(unsigned pair, unsigned half) {
  return static_cast<float>(std::bit_cast<T>(static_cast<std::uint16_t>(pair >> 16 * half)));
}

struct Mma {
  SumFragment* sums;
  const LeftFragment* left;
  const RightFragment* right;
};

template <class T>
void multiply_fragments(const std::uint64_t* lanes) {
  float left[16][16], right[16][8];
  const auto of = [&](unsigned lane) { return *reinterpret_cast<const Mma*>(lanes[lane]); };
  for (unsigned lane = 0; lane < 32; ++lane) {
    const unsigned g = lane / 4, t = lane % 4;
    for (unsigned half = 0; half < 2; ++half) {
      for (unsigned r = 0; r < 4; ++r)
        left[g + r % 2 * 8][2 * t + r / 2 * 8 + half] = low_or_high<T>(of(lane).left->values[r], half);
      for (unsigned r = 0; r < 2; ++r)
        right[2 * t + r * 8 + half][g] = low_or_high<T>(of(lane).right->values[r], half);
    }
  }
  for (unsigned lane = 0; lane < 32; ++lane) {
    for (unsigned r = 0; r < 4; ++r) {
      const unsigned row = lane / 4 + r / 2 * 8, column = lane % 4 * 2 + r % 2;
      float sum = 0;
      for (unsigned k = 0; k < 16; ++k) sum += left[row][k] * right[k][column];
      of(lane).sums->values[r] += sum;
    }
  }
}

struct Int8Mma {
  int* sums;
  unsigned left, left8, right;
};

inline void multiply_int8(const std::uint64_t* lanes) {
  const auto of = [&](unsigned lane) { return *reinterpret_cast<const Int8Mma*>(lanes[lane]); };
  for (unsigned lane = 0; lane < 32; ++lane) {
    for (unsigned i = 0; i < 4; ++i) {
      const unsigned row = lane / 4 * 4, column = (lane % 4 * 2 + i % 2) * 4;  // their first lanes
      for (unsigned t = 0; t < 4; ++t) {
        const Int8Mma left = of(row + t);
        int& sum = of(lane).sums[i];
        sum = __dp4a(static_cast<int>(i < 2 ? left.left : left.left8), static_cast<int>(of(column + t).right),
                     sum);
      }
    }
  }
}

struct MatrixLoad {
  unsigned* values;
  const std::uint16_t* row;
};

template <bool transposed>
void load_8x8(const std::uint64_t* lanes) {
  const auto of = [&](unsigned lane) { return *reinterpret_cast<const MatrixLoad*>(lanes[lane]); };
  for (unsigned lane = 0; lane < 32; ++lane) {
    const unsigned g = lane / 4, t = lane % 4;
    for (unsigned m = 0; m < 4; ++m) {
      const auto at = [&](unsigned i) {
        return unsigned{transposed ? of(8 * m + 2 * t + i).row[g] : of(8 * m + g).row[2 * t + i]};
      };
      of(lane).values[m] = at(0) | at(1) << 16;
    }
  }
}

template <bool transposed, class T>
void load_matrices(unsigned (&m)[4], const T* row, SourceLocation where) {
  static_assert(sizeof(T) == 2);
  if (reinterpret_cast<std::uintptr_t>(row) % 16 != 0) fail("a misaligned row of a matrix");
  reads(row, 16);
  MatrixLoad load{m, reinterpret_cast<const std::uint16_t*>(row)};
  collective(reinterpret_cast<std::uint64_t>(&load), load_8x8<transposed>, where);
}

}  // namespace emulation

template <class T>
void multiply_add(SumFragment& sums, const LeftFragment& left, const RightFragment& right,
                  SourceLocation where = SourceLocation::current()) {
  emulation::Mma mma{&sums, &left, &right};
  emulation::collective(reinterpret_cast<std::uint64_t>(&mma), emulation::multiply_fragments<T>, where);
}

inline void multiply_add_int8(int (&sums)[4], unsigned left, unsigned left8, unsigned right,
                              SourceLocation where = SourceLocation::current()) {
  emulation::Int8Mma mma{sums, left, left8, right};
  emulation::collective(reinterpret_cast<std::uint64_t>(&mma), emulation::multiply_int8, where);
}

template <class T>
void load_matrices(unsigned (&m)[4], const T* row, SourceLocation where = SourceLocation::current()) {
  emulation::load_matrices<false>(m, row, where);
}
template <class T>
void load_transposed_matrices(unsigned (&m)[4], const T* row,
                              SourceLocation where = SourceLocation::current()) {
  emulation::load_matrices<true>(m, row, where);
}

template <class T>
void copy_async(T* to, const T* from, bool inside, SourceLocation where = SourceLocation::current()) {
  emulation::copy_async(to, from, inside ? 16 : 0, inside ? 0 : 16, where);
}
template <class T>
void copy_word_async(T* to, const T* from, bool inside, SourceLocation where = SourceLocation::current()) {
  static_assert(sizeof(T) == 4);
  emulation::copy_async(to, from, inside ? 4 : 0, inside ? 0 : 4, where);
}
inline void commit_copies() { emulation::commit_copies(); }
template <int left>
void wait_copies() {
  emulation::wait_copies(left);
}

}  // namespace ingot::kernels::cuda
