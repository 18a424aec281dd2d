#pragma once

#include <cstddef>
#include <cstring>
#include <numeric>
#include <string>
#include <type_traits>
#include <vector>

#include "tests/support/source_dir.h"

#include "ingot/core/tensor.h"

namespace ingot::test {

inline const std::string kGoldens = source_dir() + "/tests/weights/goldens/";

/// 0, 1, 2, ... (n of them).
template <class T>
std::vector<T> counted(std::size_t n) {
  std::vector<T> values(n);
  std::iota(values.begin(), values.end(), T{0});
  return values;
}

inline std::vector<std::byte> bytes_of(const std::string& text) {
  std::vector<std::byte> bytes(text.size());
  if (!text.empty()) std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

/// The elements in order, of a tensor at any alignment.
inline std::vector<double> values_of(const Tensor& tensor) {
  return dispatch_any(tensor.dtype(), [&]<class T>() {
    std::vector<double> values;
    for (std::int64_t i = 0; i < tensor.numel(); ++i) {
      T value{};
      std::memcpy(&value, static_cast<const T*>(tensor.view().data) + i, sizeof value);
      if constexpr (std::is_arithmetic_v<T>) {
        values.push_back(static_cast<double>(value));
      } else {
        values.push_back(static_cast<double>(static_cast<float>(value)));
      }
    }
    return values;
  });
}

}  // namespace ingot::test
