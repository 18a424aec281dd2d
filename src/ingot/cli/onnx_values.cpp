#include "ingot/cli/onnx_values.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <set>
#include <span>
#include <vector>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/units.h"
#include "ingot/base/utf8.h"
#include "ingot/onnx/element.h"
#include "ingot/onnx/host.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/view.h"
#include "ingot/weights/npy.h"

namespace ingot::cli {
namespace {

/// Writes the low bytes of each whole number.
void write_low_bytes(FileWriter& out, const Tensor& x, std::size_t width) {
  constexpr std::int64_t kAtOnce = 65536;
  const Tensor flat = reshape(contiguous(x), {x.numel()});
  std::string bytes;
  for (std::int64_t begin = 0; begin < x.numel(); begin += kAtOnce) {
    const std::vector<std::int64_t> values =
        onnx::as_integers(slice(flat, 0, begin, std::min(begin + kAtOnce, x.numel())));
    bytes.resize(values.size() * width);
    for (std::size_t i = 0; i < values.size(); ++i) std::memcpy(bytes.data() + i * width, &values[i], width);
    out.write(bytes);
  }
}

std::vector<char32_t> characters_of(const std::string& text) {
  const std::string valid = to_valid_utf8(text);
  std::vector<char32_t> characters;
  characters.reserve(valid.size());
  for (std::size_t at = 0; at < valid.size();) characters.push_back(decode_utf8(valid, at));
  return characters;
}

/// The characters of the longest string, at least 1: NumPy's are all as long.
std::size_t longest_text(const Tensor& numbers, const onnx::Texts& texts) {
  const Tensor flat = contiguous(numbers);
  std::set<std::int64_t> seen;
  std::size_t length = 1;
  for (std::int64_t i = 0; i < flat.numel(); ++i) {
    const std::int64_t number = flat.data<std::int64_t>()[i];
    if (seen.insert(number).second) length = std::max(length, characters_of(texts.text_of(number)).size());
  }
  return length;
}

/// NumPy's strings: characters of four bytes.
void write_wide_texts(FileWriter& out, const Tensor& numbers, const onnx::Texts& texts, std::size_t length) {
  const Tensor flat = contiguous(numbers);
  for (std::int64_t i = 0; i < flat.numel(); ++i) {
    std::vector<char32_t> row = characters_of(texts.text_of(flat.data<std::int64_t>()[i]));
    row.resize(length);
    out.write(std::as_bytes(std::span(row)));
  }
}

/// What NumPy has for a tensor's dtype: f32 holds every bf16 and every float of 8 bits.
DType numpy_dtype(DType dtype) {
  const bool is_small = is_floating_point(dtype) && dtype != DType::f16 && byte_size(dtype) < 4;
  return is_small ? DType::f32 : dtype;
}

std::uint64_t width_of(const onnx::Value& value, const onnx::Texts& texts) {
  switch (value.type) {
    case onnx::ElementType::text:
      return longest_text(value.tensor, texts) * sizeof(char32_t);
    case onnx::ElementType::u16:
      return 2;
    case onnx::ElementType::u32:
      return 4;
    default:
      return byte_size(numpy_dtype(value.tensor.dtype()));
  }
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
  const auto found = std::ranges::find(kUnsignedTypes, value.type, &UnsignedType::type);
  if (value.type == onnx::ElementType::text) {
    const std::size_t length = longest_text(x, texts);
    write_file_atomically(path, [&](FileWriter& out) {
      out.write(npy_header(x.shape(), fmt::format("<U{}", length)));
      write_wide_texts(out, x, texts, length);
    });
  } else if (found != kUnsignedTypes.end()) {
    write_file_atomically(path, [&](FileWriter& out) {
      out.write(npy_header(x.shape(), fmt::format("<{}", found->code)));
      write_low_bytes(out, x, byte_size(found->read_as));
    });
  } else {
    write_npy(path, contiguous(to(x, numpy_dtype(x.dtype()))));
  }
  return fmt::format("{} {}", name_of(type_of(value)), to_string(x.shape()));
}

void check_file_sizes(const std::vector<onnx::ValueInfo>& outputs, const onnx::Values& values,
                      const onnx::Texts& texts, std::uint64_t bytes) {
  constexpr std::size_t kMostFiles = 65536;
  std::uint64_t taken = 0;
  std::size_t files = 0;
  const auto add = [&](const onnx::ValueInfo& output, const onnx::Value& value) {
    if (!value.tensor.defined()) return;
    const std::uint64_t numel = static_cast<std::uint64_t>(value.tensor.numel());
    const std::uint64_t width = width_of(value, texts);
    INGOT_CHECK(++files <= kMostFiles,
                Error(fmt::format("output '{}': takes more than {} files", output.name, kMostFiles)));
    INGOT_CHECK(numel <= (bytes - taken) / width,
                Error(fmt::format("output '{}': {} elements of {} bytes take more than the {} that the "
                                  "outputs' files may take; --max-memory allows more",
                                  output.name, numel, width, human_bytes(bytes))));
    taken += numel * width;
  };
  for (std::size_t i = 0; i < values.size(); ++i) {
    add(outputs[i], values[i]);
    if (!values[i].is_sequence()) continue;
    for (const onnx::Value& item : *values[i].items) add(outputs[i], item);
  }
}

}  // namespace ingot::cli
