#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ingot/core/tensor.h"

namespace ingot::onnx {

/// Element types of ONNX that Ingot has no dtype for, by their numbers in TensorProto.DataType. Their
/// elements are held in a dtype that represents every one of them: see carrier().
enum class ElementType : std::uint8_t {
  plain = 0,  ///< the tensor's dtype is the type
  u16 = 4,
  text = 8,
  u32 = 12,
  u64 = 13,
  f8e4m3fnuz = 18,
  f8e5m2fnuz = 20,
  u4 = 21,
  i4 = 22,
  f4e2m1 = 23,
  f8e8m0 = 24,
  u2 = 25,
  i2 = 26
};

/// What nodes pass to each other: a tensor, a sequence of values, or nothing (an empty optional).
struct Value {
  Value() = default;
  Value(Tensor x, ElementType element = ElementType::plain)  // NOLINT(google-explicit-constructor)
      : tensor(std::move(x)), type(element) {}

  Tensor tensor;  ///< undefined for a sequence
  ElementType type = ElementType::plain;
  std::shared_ptr<const std::vector<Value>> items;  ///< of a sequence

  bool is_sequence() const { return items != nullptr; }
  bool defined() const { return tensor.defined() || is_sequence(); }
};
using Values = std::vector<Value>;

/// Strings, each once: tensors of them hold numbers that stand for them (i64), so whatever moves, chooses or
/// compares elements need not know.
class Texts {
 public:
  Texts() { number_of(""); }  // 0, what tensors are padded with

  std::int64_t number_of(std::string_view text);
  /// FormatError for a number that stands for none.
  const std::string& text_of(std::int64_t number) const;

 private:
  std::vector<std::string> texts_;
  std::map<std::string, std::int64_t, std::less<>> numbers_;
};

}  // namespace ingot::onnx
