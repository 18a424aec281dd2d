#include "ingot/weights/raw.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <set>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/weights/blob_source.h"

namespace ingot {
namespace {

constexpr const char* kForm = "expected NAME=DTYPE[SIZES]@OFFSET, as in f32[2,3] or weight=bf16[-1,768]@128";

[[noreturn]] void refuse(std::string_view text, std::string_view problem) {
  throw InvalidConfig("raw", fmt::format("'{}' {}; {}", text, problem, kForm));
}

template <class T>
T parse_number(std::string_view part, std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
  if (error != std::errc{} || end != part.data() + part.size() || part.empty())
    refuse(text, fmt::format("has '{}' in the place of a number", part));
  return value;
}

std::vector<std::int64_t> parse_shape(std::string_view sizes, std::string_view text) {
  std::vector<std::int64_t> shape;
  while (!sizes.empty()) {
    const std::size_t comma = sizes.find(',');
    shape.push_back(parse_number<std::int64_t>(sizes.substr(0, comma), text));
    if (shape.back() < -1) refuse(text, fmt::format("has an axis of {}", shape.back()));
    if (comma == sizes.npos) break;
    sizes.remove_prefix(comma + 1);
    if (sizes.empty()) refuse(text, "ends its sizes with a comma");
  }
  if (std::ranges::count(shape, -1) > 1) refuse(text, "leaves more than one axis open");
  return shape;
}

/// Lays the tensors out in a file of so many bytes.
class Placement {
 public:
  explicit Placement(const Blob& blob) : blob_(blob) {}

  TensorInfo place(const RawTensor& tensor, bool last) {
    TensorInfo info;
    info.name = tensor.name.empty() ? std::filesystem::path(blob_.name).stem().string() : tensor.name;
    INGOT_CHECK(names_.insert(info.name).second,
                InvalidConfig(
                    "raw", fmt::format("two tensors are called '{}'; name them as in a=f32[2]", info.name)));
    info.dtype = tensor.dtype;
    info.stored_as = name(tensor.dtype);
    info.file = blob_.name;
    info.shape = tensor.shape;
    info.offset = tensor.offset.value_or(end_);
    const std::uint64_t size = blob_.bytes.size();
    if (info.offset > size) fail(info, fmt::format("begins at byte {}", info.offset));
    info.bytes = bytes_of(info, size - info.offset);
    end_ = info.offset + info.bytes;
    INGOT_CHECK(
        !last || tensor.offset || end_ == size,
        FormatError(blob_.name, static_cast<std::int64_t>(end_), info.name,
                    fmt::format("{}{} ends here, but the file has {} bytes; leave an axis open (-1), or "
                                "say what else there is",
                                info.stored_as, to_string(info.shape), size)));
    return info;
  }

 private:
  [[noreturn]] void fail(const TensorInfo& info, const std::string& problem) const {
    throw FormatError(blob_.name, static_cast<std::int64_t>(info.offset), info.name,
                      fmt::format("{}{} {}, but the file has {}", info.stored_as, to_string(info.shape),
                                  problem, blob_.bytes.size()));
  }

  /// Also fills the open axis.
  std::uint64_t bytes_of(TensorInfo& info, std::uint64_t rest) const {
    std::uint64_t bytes = byte_size(*info.dtype);
    std::int64_t* open = nullptr;
    for (std::int64_t& axis : info.shape) {
      if (axis == -1) {
        open = &axis;
      } else if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(axis), &bytes)) {
        fail(info, "has more bytes than can be counted");
      }
    }
    if (open != nullptr) {
      if (bytes == 0 || rest % bytes != 0)
        fail(info, fmt::format("takes a multiple of {} bytes from byte {} on", bytes, info.offset));
      *open = static_cast<std::int64_t>(rest / bytes);
      return rest;
    }
    if (bytes > rest) fail(info, fmt::format("takes {} bytes from byte {} on", bytes, info.offset));
    return bytes;
  }

  const Blob& blob_;
  std::uint64_t end_ = 0;
  std::set<std::string> names_;
};

class RawFile final : public BlobSource<> {
 public:
  RawFile(Blob blob, std::span<const RawTensor> tensors) : BlobSource(std::move(blob)) {
    Placement layout(blob_);
    std::vector<TensorInfo> infos;
    for (const RawTensor& tensor : tensors) infos.push_back(layout.place(tensor, &tensor == &tensors.back()));
    set_contents(std::move(infos), {});
  }
  std::string_view format() const override { return "raw"; }

 protected:
  Tensor load(const TensorInfo& info) const override {
    check_loadable(*this, info);
    check_booleans(info, blob_.bytes.subspan(info.offset, info.bytes));
    return tensor_in(blob_, info.offset, Shape(std::span<const std::int64_t>(info.shape)), *info.dtype);
  }
};

}  // namespace

RawTensor RawTensor::parse(std::string_view text) {
  RawTensor tensor;
  std::string_view rest = text;
  const std::size_t open = rest.rfind('['), close = rest.rfind(']');
  if (open == rest.npos || close == rest.npos || close < open) refuse(text, "has no sizes in brackets");
  const std::string_view after = rest.substr(close + 1);
  if (!after.empty()) {
    if (after.front() != '@') refuse(text, fmt::format("goes on with '{}'", after));
    tensor.offset = parse_number<std::uint64_t>(after.substr(1), text);
  }
  tensor.shape = parse_shape(rest.substr(open + 1, close - open - 1), text);
  rest = rest.substr(0, open);
  if (const std::size_t equals = rest.rfind('='); equals != rest.npos) {
    tensor.name = rest.substr(0, equals);
    rest.remove_prefix(equals + 1);
  }
  tensor.dtype = parse_dtype(rest);
  return tensor;
}

std::vector<RawTensor> parse_raw_tensors(std::span<const std::string> texts) {
  std::vector<RawTensor> tensors;
  for (const std::string& text : texts) tensors.push_back(RawTensor::parse(text));
  return tensors;
}

std::unique_ptr<WeightSource> open_raw(Blob blob, std::span<const RawTensor> tensors) {
  INGOT_CHECK(!tensors.empty(), InvalidConfig("raw", "names no tensor"));
  return std::make_unique<RawFile>(std::move(blob), tensors);
}

}  // namespace ingot
