#pragma once

#include <initializer_list>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "ingot/base/error.h"
#include "ingot/base/rng.h"
#include "ingot/core/tensor.h"
#include "ingot/quant/packed_matrix.h"

namespace ingot::test {

/// Normal random f32 values times `scale`.
inline Tensor random(const Shape& shape, std::uint64_t seed, float scale = 1) {
  Tensor x = Tensor::empty(shape);
  Rng rng(RngKey{seed, 0});
  for (std::int64_t i = 0; i < x.numel(); ++i) x.data<float>()[i] = static_cast<float>(rng.normal()) * scale;
  return x;
}

/// A packed matrix as f32.
inline Tensor all_rows(const quant::PackedMatrix& packed) {
  std::vector<std::int64_t> ids(static_cast<std::size_t>(packed.rows));
  std::iota(ids.begin(), ids.end(), 0);
  return quant::rows(packed, Tensor::from(ids, {packed.rows}));
}

inline void expect_message(const std::string& message, std::initializer_list<const char*> parts) {
  for (const char* part : parts)
    EXPECT_NE(message.find(part), std::string::npos) << message << " lacks " << part;
}

}  // namespace ingot::test
