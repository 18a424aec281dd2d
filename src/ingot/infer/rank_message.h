#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "ingot/base/error.h"

namespace ingot::infer {

/// Numbers one after another, as the first rank tells them to the others. Processes of one program read them.
class RankMessage {
 public:
  RankMessage() = default;
  explicit RankMessage(std::vector<std::byte> bytes) : bytes_(std::move(bytes)) {}

  template <class T>
  void put(const T& value) {
    put(std::span<const T>(&value, 1));
  }
  template <class T>
  void put(std::span<const T> values) {
    static_assert(std::is_trivially_copyable_v<T>);
    const auto bytes = std::as_bytes(values);
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }
  template <class T>
  T take() {
    T value{};
    take(std::span<T>(&value, 1));
    return value;
  }
  template <class T>
  void take(std::span<T> values) {
    static_assert(std::is_trivially_copyable_v<T>);
    INGOT_CHECK(
        at_ + values.size_bytes() <= bytes_.size(),
        Error("the first rank's message is shorter than what it tells; start all ranks with one program"));
    if (!values.empty()) std::memcpy(values.data(), bytes_.data() + at_, values.size_bytes());
    at_ += values.size_bytes();
  }
  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
  std::size_t at_ = 0;
};

}  // namespace ingot::infer
