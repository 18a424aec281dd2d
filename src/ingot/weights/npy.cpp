#include "ingot/weights/npy.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <limits>
#include <optional>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/weights/tensor_bytes.h"

namespace ingot {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

struct NpyType {
  std::string_view code;  // without the byte order
  DType dtype;
};

constexpr std::array<NpyType, 9> kNpyTypes{{{"f2", DType::f16},
                                            {"f4", DType::f32},
                                            {"f8", DType::f64},
                                            {"i1", DType::i8},
                                            {"i2", DType::i16},
                                            {"i4", DType::i32},
                                            {"i8", DType::i64},
                                            {"u1", DType::u8},
                                            {"b1", DType::boolean}}};

struct NpyHeader {
  std::string descr;
  bool fortran_order = false;
  std::vector<std::int64_t> shape;
  std::size_t data_begin = 0;
};

/// Reads the header's dictionary, a Python literal: three known keys in any order, and nothing else.
class DictReader {
 public:
  DictReader(std::string_view text, std::size_t offset, const std::string& file)
      : text_(text), offset_(offset), file_(file) {}

  NpyHeader read() {
    NpyHeader header;
    bool descr = false, order = false, shape = false;
    expect('{');
    while (!take('}')) {
      const std::string key = quoted();
      expect(':');
      if (key == "descr" && !descr) {
        if (peek() == '[') fail("descr", "is a structured type; only plain numbers can be read");
        header.descr = quoted();
        descr = true;
      } else if (key == "fortran_order" && !order) {
        header.fortran_order = boolean();
        order = true;
      } else if (key == "shape" && !shape) {
        header.shape = tuple();
        shape = true;
      } else {
        fail(key, "is given twice, or is not a key of the format (descr, fortran_order, shape)");
      }
      if (!take(',')) {
        expect('}');
        break;
      }
    }
    skip_spaces();
    if (at_ != text_.size()) fail("header", "goes on after its dictionary");
    if (!descr || !order || !shape) fail("header", "lacks one of descr, fortran_order and shape");
    return header;
  }

 private:
  [[noreturn]] void fail(std::string field, std::string_view problem) const {
    throw FormatError(file_, static_cast<std::int64_t>(offset_ + at_), std::move(field), problem);
  }
  void skip_spaces() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
  }
  char peek() {
    skip_spaces();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(char c) {
    if (peek() != c || at_ == text_.size()) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!take(c)) fail("header", fmt::format("is not a dictionary as NumPy writes it: expected '{}'", c));
  }
  std::string quoted() {
    const char quote = peek();
    if (quote != '\'' && quote != '"') fail("header", "expected a quoted word");
    const std::size_t end = text_.find(quote, at_ + 1);
    if (end == text_.npos) fail("header", "a quoted word does not end");
    std::string word(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return word;
  }
  bool boolean() {
    skip_spaces();
    for (const std::string_view word : {"True", "False"}) {
      if (!text_.substr(at_).starts_with(word)) continue;
      at_ += word.size();
      return word == "True";
    }
    fail("fortran_order", "is neither True nor False");
  }
  std::vector<std::int64_t> tuple() {
    std::vector<std::int64_t> sizes;
    expect('(');
    while (!take(')')) {
      skip_spaces();
      std::int64_t size = 0;
      const char* const begin = text_.data() + at_;
      const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), size);
      if (error != std::errc() || size < 0) fail("shape", "holds something else than sizes");
      at_ += static_cast<std::size_t>(end - begin);
      take('L');  // Python 2 wrote long integers so
      sizes.push_back(size);
      if (!take(',')) {
        expect(')');
        break;
      }
    }
    return sizes;
  }

  std::string_view text_;
  std::size_t offset_;
  const std::string& file_;
  std::size_t at_ = 0;
};

NpyHeader parse_npy_header(std::span<const std::byte> bytes, const std::string& file) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  INGOT_CHECK(text.size() >= 10 && text.starts_with(kMagic),
              FormatError(file, 0, "magic", "this is not a .npy file"));
  const auto byte = [&](std::size_t i) { return std::to_integer<std::size_t>(bytes[i]); };
  const std::size_t major = byte(6);
  INGOT_CHECK(major >= 1 && major <= 3,
              FormatError(file, 6, "version", fmt::format("is {}; 1 to 3 can be read", major)));
  const std::size_t begin = major == 1 ? 10 : 12;
  INGOT_CHECK(text.size() >= begin, FormatError(file, 8, "header length", "the file was cut short"));
  std::size_t length = byte(8) | byte(9) << 8;
  if (major > 1) length |= byte(10) << 16 | byte(11) << 24;
  INGOT_CHECK(length <= text.size() - begin,
              FormatError(file, 8, "header length",
                          fmt::format("is {}, but only {} bytes follow; the file was "
                                      "cut short",
                                      length, text.size() - begin)));
  NpyHeader header = DictReader(text.substr(begin, length), begin, file).read();
  header.data_begin = begin + length;
  return header;
}

[[noreturn]] void fail(const std::string& file, std::size_t offset, std::string field,
                       std::string_view problem) {
  throw FormatError(file, static_cast<std::int64_t>(offset), std::move(field), problem);
}

std::optional<DType> parse_descr(const std::string& descr, bool& swapped, const std::string& file) {
  const bool has_order = !descr.empty() && std::string_view("<>|=").find(descr[0]) != std::string_view::npos;
  swapped = has_order && descr[0] == '>';
  const std::string_view code = std::string_view(descr).substr(has_order ? 1 : 0);
  const auto found = std::ranges::find(kNpyTypes, code, &NpyType::code);
  if (found != kNpyTypes.end()) return found->dtype;
  if (code == "O")
    fail(file, 10, "descr", "holds pickled Python objects, which are never read: they can run code");
  return std::nullopt;
}

void check_size(const TensorInfo& info) {
  std::uint64_t bytes = byte_size(*info.dtype);
  bool empty = false;
  for (const std::int64_t size : info.shape) {
    if (size == 0) {
      empty = true;
    } else if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(size), &bytes)) {
      fail(info.file, 10, "shape", fmt::format("{} overflows", to_string(info.shape)));
    }
  }
  if (empty) bytes = 0;
  if (bytes != info.bytes) {
    fail(info.file, static_cast<std::size_t>(info.offset), "data",
         fmt::format("has {} bytes, but shape {} of '{}' takes {}", info.bytes, to_string(info.shape),
                     info.stored_as, bytes));
  }
}

void check_booleans(const TensorInfo& info, const Blob& blob) {
  const auto values = blob.bytes.subspan(info.offset, info.bytes);
  const auto bad = std::ranges::find_if(values, [](std::byte b) { return b > std::byte{1}; });
  if (bad != values.end()) {
    fail(info.file, info.offset + static_cast<std::size_t>(bad - values.begin()), "data",
         "holds a byte other than 0 and 1 as a boolean");
  }
}

Tensor swap_bytes(const Tensor& from) {
  Tensor to = Tensor::empty_like(from);
  const std::size_t size = byte_size(from.dtype());
  const auto* in = static_cast<const std::byte*>(from.view().data);
  auto* out = static_cast<std::byte*>(to.view().data);
  for (std::size_t i = 0; i < from.nbytes(); i += size) std::reverse_copy(in + i, in + i + size, out + i);
  return to;
}

/// A copy of `from`, whose axes are in reverse, in the order of `shape`.
Tensor transposed(const Tensor& from, const Shape& shape) {
  Tensor to = Tensor::empty(shape, from.dtype());
  View view = from.view();
  std::reverse(view.shape.begin(), view.shape.begin() + view.rank);
  std::reverse(view.strides.begin(), view.strides.begin() + view.rank);
  auto* out = static_cast<std::byte*>(to.view().data);
  for_each_byte_range(Tensor(from.storage(), view), [&](std::span<const std::byte> bytes) {
    std::memcpy(out, bytes.data(), bytes.size());
    out += bytes.size();
  });
  return to;
}

class NpyFile final : public WeightSource {
 public:
  explicit NpyFile(Blob blob)
      : WeightSource(blob.name),
        blob_(std::move(blob)),
        description_(parse_npy(blob_.bytes, blob_.bytes.size(), location())) {
    set_contents({description_.info}, {});
  }

  std::string_view format() const override { return "npy"; }
  WeightCapabilities capabilities() const override { return {.zero_copy = true, .concurrent = true}; }

 protected:
  Tensor load(const TensorInfo&) const override { return load_npy(description_, blob_); }
  Blob stored(const TensorInfo& info) const override { return part_of(blob_, info.offset, info.bytes); }

 private:
  Blob blob_;
  NpyDescription description_;
};

}  // namespace

NpyDescription parse_npy(std::span<const std::byte> start, std::uint64_t file_size, const std::string& file) {
  NpyHeader header = parse_npy_header(start, file);
  NpyDescription description;
  description.fortran_order = header.fortran_order;
  TensorInfo& info = description.info;
  info.name = std::filesystem::path(file).stem().string();
  info.shape = std::move(header.shape);
  info.stored_as = header.descr;
  info.offset = header.data_begin;
  info.bytes = file_size - header.data_begin;
  info.file = file;
  info.dtype = parse_descr(header.descr, description.swapped, file);
  if (info.dtype) check_size(info);
  return description;
}

void take_as(NpyDescription& description, DType dtype) {
  description.info.dtype = dtype;
  check_size(description.info);
}

Tensor load_npy(const NpyDescription& description, const Blob& blob) {
  const TensorInfo& info = description.info;
  INGOT_CHECK(info.dtype.has_value(),
              NotImplemented(fmt::format("{}: element type '{}'", info.file, info.stored_as)));
  INGOT_CHECK(info.shape.size() <= kMaxRank,
              NotImplemented(fmt::format("{}: shape {} has more than {} axes", info.file,
                                         to_string(info.shape), kMaxRank)));
  std::vector<std::int64_t> stored = info.shape;
  const bool reorder = description.fortran_order && stored.size() > 1;
  if (reorder) std::ranges::reverse(stored);
  Tensor tensor = tensor_in(blob, info.offset, Shape(std::span<const std::int64_t>(stored)), *info.dtype);
  if (*info.dtype == DType::boolean) check_booleans(info, blob);
  if (description.swapped) tensor = swap_bytes(tensor);
  return reorder ? transposed(tensor, Shape(std::span<const std::int64_t>(info.shape))) : tensor;
}

std::string npy_header(const std::string& path, const Shape& shape, DType dtype) {
  const auto type = std::ranges::find(kNpyTypes, dtype, &NpyType::dtype);
  INGOT_CHECK(type != kNpyTypes.end(),
              IoError(path, fmt::format("NumPy has no element type for {}; convert the tensor to f32 first",
                                        name(dtype))));
  return npy_header(shape, fmt::format("{}{}", byte_size(dtype) == 1 ? '|' : '<', type->code));
}

std::string npy_header(const Shape& shape, const std::string& descr) {
  std::string sizes;
  for (const std::int64_t size : shape.dims()) sizes += fmt::format("{}, ", size);
  if (shape.rank() > 1) sizes.resize(sizes.size() - 2);
  if (shape.rank() == 1) sizes.resize(sizes.size() - 1);  // "(3,)"
  std::string dict = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", descr, sizes);
  const std::size_t total = (10 + dict.size() + 1 + 63) / 64 * 64;
  dict.resize(total - 10 - 1, ' ');
  dict += '\n';
  std::string header(kMagic);
  header += {1, 0, static_cast<char>(dict.size() & 0xff), static_cast<char>(dict.size() >> 8)};
  return header + dict;
}

void write_npy(const std::string& path, const Tensor& tensor) {
  INGOT_CHECK(tensor.defined(), IoError(path, "cannot store an undefined tensor"));
  const std::string header = npy_header(path, tensor.shape(), tensor.dtype());
  write_file_atomically(path, [&](FileWriter& out) {
    out.write(header);
    for_each_byte_range(tensor, [&](std::span<const std::byte> bytes) { out.write(bytes); });
  });
}

std::unique_ptr<WeightSource> open_npy(Blob blob) { return std::make_unique<NpyFile>(std::move(blob)); }
std::unique_ptr<WeightSource> open_npy(const std::string& path) { return open_npy(map_blob(path)); }

Tensor read_npy(const std::string& path) {
  const auto source = open_npy(path);
  return source->load_tensor(source->tensors()[0].name);
}

}  // namespace ingot
