#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ingot/core/tensor.h"
#include "ingot/onnx/value.h"

namespace onnx {
class TensorProto;
}

namespace ingot {
class OnnxFile;
}

namespace ingot::onnx {

/// A type of elements: one that Ingot has a dtype for, or one that is held in another.
struct StoredType {
  ElementType element = ElementType::plain;
  DType dtype = DType::f32;  ///< or that of the carrier

  bool operator==(const StoredType&) const = default;
};

/// By the number in TensorProto.DataType; nothing for a type that Ingot cannot hold (complex numbers).
std::optional<StoredType> stored_type(std::int64_t number);
/// "UINT16", "f32", ...
std::string name_of(const StoredType& type);
inline StoredType type_of(const Value& value) { return {value.type, value.tensor.dtype()}; }

/// u16 in i32; u32, u64 (its bits) and numbers of strings in i64; u2 and u4 in u8, i2 and i4 in i8; floats of
/// 4 and 8 bits in f32.
DType carrier(ElementType type);

/// A file's tensor of any type that can be held. NotImplemented for others.
Value load_value(const OnnxFile& file, const ::onnx::TensorProto& tensor, Texts& texts);

/// Whole numbers of a carrier that left the range of their type, wrapped into it.
Tensor wrapped_to(const Tensor& x, ElementType type);
/// Elements of `x` as another type: as ONNX' Cast does. Floats out of an 8-bit float's range become its
/// largest, or with `saturate` false NaN or infinity. Strings stay strings: see cast_text.
Value converted_to(const Value& x, const StoredType& type, bool saturate);
/// The same bits as elements of a type of the same width; Error where the widths differ.
Value bits_as(const Value& x, const StoredType& type);

}  // namespace ingot::onnx
