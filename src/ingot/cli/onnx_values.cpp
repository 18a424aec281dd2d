#include "ingot/cli/onnx_values.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include <fmt/format.h>

#include "ingot/base/files.h"
#include "ingot/base/utf8.h"
#include "ingot/onnx/element.h"
#include "ingot/onnx/host.h"
#include "ingot/ops/cast.h"
#include "ingot/weights/npy.h"

namespace ingot::cli {
namespace {

/// The low bytes of each whole number.
std::string low_bytes(const Tensor& x, std::size_t width) {
  const std::vector<std::int64_t> values = onnx::as_integers(x);
  std::string bytes(values.size() * width, '\0');
  for (std::size_t i = 0; i < values.size(); ++i) std::memcpy(bytes.data() + i * width, &values[i], width);
  return bytes;
}

/// NumPy's strings: characters of four bytes, all as long as the longest. `length` is set to that.
std::string wide_texts(const Tensor& numbers, const onnx::Texts& texts, std::size_t& length) {
  std::vector<std::vector<char32_t>> rows;
  length = 1;
  for (const std::int64_t number : onnx::as_integers(numbers)) {
    const std::string text = to_valid_utf8(texts.text_of(number));
    std::vector<char32_t>& row = rows.emplace_back();
    for (std::size_t at = 0; at < text.size();) row.push_back(decode_utf8(text, at));
    length = std::max(length, row.size());
  }
  std::string bytes(rows.size() * length * sizeof(char32_t), '\0');
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!rows[i].empty())
      std::memcpy(bytes.data() + i * length * sizeof(char32_t), rows[i].data(),
                  rows[i].size() * sizeof(char32_t));
  }
  return bytes;
}

struct UnsignedType {
  std::string_view code;
  onnx::ElementType type;
  DType read_as, carrier;  // the signed type of the same width, and what holds every value
};
constexpr std::array kUnsignedTypes{UnsignedType{"u2", onnx::ElementType::u16, DType::i16, DType::i32},
                                    UnsignedType{"u4", onnx::ElementType::u32, DType::i32, DType::i64},
                                    UnsignedType{"u8", onnx::ElementType::u64, DType::i64, DType::i64}};

}  // namespace

onnx::Value read_value(const std::string& path) {
  const Blob blob = map_blob(path);
  NpyDescription description = parse_npy(blob.bytes, blob.bytes.size(), path);
  const auto found = std::ranges::find_if(kUnsignedTypes, [&](const UnsignedType& type) {
    return description.info.stored_as.ends_with(type.code);
  });
  if (description.info.dtype || found == kUnsignedTypes.end()) return load_npy(description, blob);
  take_as(description, found->read_as);
  const Tensor stored = load_npy(description, blob);
  std::vector<std::int64_t> values = onnx::as_integers(stored);
  const std::size_t bits = 8 * byte_size(found->read_as);
  if (bits < 64)
    for (std::int64_t& value : values) value &= (std::int64_t{1} << bits) - 1;
  return {onnx::from_integers(values, stored.shape(), found->carrier), found->type};
}

std::string write_value(const std::string& path, const onnx::Value& value, const onnx::Texts& texts) {
  const Tensor& x = value.tensor;
  const auto write = [&](const std::string& descr, const std::string& bytes) {
    write_file_atomically(path, npy_header(x.shape(), descr) + bytes);
  };
  std::size_t length = 0;
  switch (value.type) {
    case onnx::ElementType::text: {
      const std::string bytes = wide_texts(x, texts, length);
      write(fmt::format("<U{}", length), bytes);
      break;
    }
    case onnx::ElementType::u16:
      write("<u2", low_bytes(x, 2));
      break;
    case onnx::ElementType::u32:
      write("<u4", low_bytes(x, 4));
      break;
    case onnx::ElementType::u64:
      write("<u8", low_bytes(x, 8));
      break;
    default:
      write_npy(path, contiguous(x));
  }
  return fmt::format("{} {}", name_of(type_of(value)), to_string(x.shape()));
}

}  // namespace ingot::cli
