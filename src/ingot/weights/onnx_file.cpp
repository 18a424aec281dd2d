#include "ingot/weights/onnx_file.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <filesystem>

#include "onnx.pb.h"
#include <fmt/format.h>
#if GOOGLE_PROTOBUF_VERSION < 4022000
#include <google/protobuf/stubs/logging.h>
#endif

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/printable.h"

namespace ingot {
namespace {

namespace fs = std::filesystem;

struct OnnxType {
  int number;
  const char* name;
  std::size_t bits;
  std::optional<DType> dtype;
};

// TensorProto.DataType; numbers from 17 on are younger than the description that Debian has.
const std::array kOnnxTypes = {OnnxType{1, "FLOAT", 32, DType::f32},
                               OnnxType{2, "UINT8", 8, DType::u8},
                               OnnxType{3, "INT8", 8, DType::i8},
                               OnnxType{4, "UINT16", 16, {}},
                               OnnxType{5, "INT16", 16, DType::i16},
                               OnnxType{6, "INT32", 32, DType::i32},
                               OnnxType{7, "INT64", 64, DType::i64},
                               OnnxType{8, "STRING", 0, {}},
                               OnnxType{9, "BOOL", 8, DType::boolean},
                               OnnxType{10, "FLOAT16", 16, DType::f16},
                               OnnxType{11, "DOUBLE", 64, DType::f64},
                               OnnxType{12, "UINT32", 32, {}},
                               OnnxType{13, "UINT64", 64, {}},
                               OnnxType{14, "COMPLEX64", 64, {}},
                               OnnxType{15, "COMPLEX128", 128, {}},
                               OnnxType{16, "BFLOAT16", 16, DType::bf16},
                               OnnxType{17, "FLOAT8E4M3FN", 8, DType::f8e4m3},
                               OnnxType{18, "FLOAT8E4M3FNUZ", 8, {}},
                               OnnxType{19, "FLOAT8E5M2", 8, DType::f8e5m2},
                               OnnxType{20, "FLOAT8E5M2FNUZ", 8, {}},
                               OnnxType{21, "UINT4", 4, {}},
                               OnnxType{22, "INT4", 4, {}},
                               OnnxType{23, "FLOAT4E2M1", 4, {}},
                               OnnxType{24, "FLOAT8E8M0", 8, {}},
                               OnnxType{25, "UINT2", 2, {}},
                               OnnxType{26, "INT2", 2, {}}};

const OnnxType* find_type(int number) {
  const auto found = std::ranges::find(kOnnxTypes, number, &OnnxType::number);
  return found == kOnnxTypes.end() ? nullptr : &*found;
}

/// Values of a typed field, converted one by one; `bits` where the field holds bit patterns (fp16 in
/// int32_data).
template <class To, class Field>
std::vector<std::byte> converted(const Field& field, bool bits = false) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(field.size()) * sizeof(To));
  std::byte* out = bytes.data();
  for (const auto value : field) {
    if (bits) {
      const auto pattern = static_cast<std::uint32_t>(value);
      std::memcpy(out, &pattern, sizeof(To));  // little-endian: the low bytes
    } else {
      const To element = static_cast<To>(value);
      std::memcpy(out, &element, sizeof(To));
    }
    out += sizeof(To);
  }
  return bytes;
}

std::vector<std::byte> typed_values(const ::onnx::TensorProto& t) {
  switch (t.data_type()) {
    case 1:
      return converted<float>(t.float_data());
    case 2:
      return converted<std::uint8_t>(t.int32_data());
    case 3:
      return converted<std::int8_t>(t.int32_data());
    case 4:
      return converted<std::uint16_t>(t.int32_data());
    case 5:
      return converted<std::int16_t>(t.int32_data());
    case 6:
      return converted<std::int32_t>(t.int32_data());
    case 7:
      return converted<std::int64_t>(t.int64_data());
    case 9:
      return converted<std::uint8_t>(t.int32_data());
    case 11:
      return converted<double>(t.double_data());
    case 10:
    case 16:
      return converted<std::uint16_t>(t.int32_data(), true);
    case 12:
      return converted<std::uint32_t>(t.uint64_data());
    case 13:
      return converted<std::uint64_t>(t.uint64_data());
    default:
      return converted<std::uint8_t>(t.int32_data(), true);
  }
}

bool is_external(const ::onnx::TensorProto& tensor) {
  return tensor.data_location() == ::onnx::TensorProto::EXTERNAL;
}

std::string external_entry(const ::onnx::TensorProto& tensor, std::string_view key) {
  for (const auto& entry : tensor.external_data()) {
    if (entry.key() == key) return entry.value();
  }
  return {};
}

std::uint64_t external_number(const ::onnx::TensorProto& tensor, std::string_view key, std::uint64_t fallback,
                              const std::string& file) {
  const std::string text = external_entry(tensor, key);
  if (text.empty()) return fallback;
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  INGOT_CHECK(
      error == std::errc() && end == text.data() + text.size(),
      FormatError(file, -1, tensor.name(), fmt::format("external data: {} '{}' is not a number", key, text)));
  return number;
}

/// Reading any other byte as a bool is undefined behaviour.
void check_booleans(std::span<const std::byte> bytes, const std::string& file, const std::string& name) {
  INGOT_CHECK(std::ranges::all_of(bytes, [](std::byte b) { return b <= std::byte{1}; }),
              FormatError(file, -1, name, "holds a byte other than 0 and 1 as a boolean"));
}

}  // namespace

std::string onnx_type_name(int type) {
  const OnnxType* found = find_type(type);
  return found == nullptr ? fmt::format("type {}", type) : found->name;
}

std::optional<DType> onnx_dtype(int type) {
  const OnnxType* found = find_type(type);
  return found == nullptr ? std::nullopt : found->dtype;
}

OnnxFile::OnnxFile(std::string path, std::unique_ptr<::onnx::ModelProto> model)
    : path_(std::move(path)), model_(std::move(model)) {}
OnnxFile::~OnnxFile() = default;

std::shared_ptr<const OnnxFile> OnnxFile::open(const Blob& blob) {
  auto model = std::make_unique<::onnx::ModelProto>();
#if GOOGLE_PROTOBUF_VERSION < 4022000
  const google::protobuf::LogSilencer silent;  // it would write of names that are not UTF-8 to the terminal
#endif
  INGOT_CHECK(blob.bytes.size() < (std::size_t{1} << 31),
              FormatError(blob.name, 0, "model", "is larger than 2 GiB, which no protobuf message may be"));
  INGOT_CHECK(
      model->ParseFromArray(blob.bytes.data(), static_cast<int>(blob.bytes.size())) && model->has_graph(),
      FormatError(blob.name, 0, "model", "is not an ONNX model, or was cut short"));
  return std::shared_ptr<const OnnxFile>(new OnnxFile(blob.name, std::move(model)));
}
std::shared_ptr<const OnnxFile> OnnxFile::open(const std::string& path) { return open(map_blob(path)); }

TensorInfo OnnxFile::describe(const ::onnx::TensorProto& tensor) const {
  TensorInfo info;
  info.name = tensor.name();
  info.shape.assign(tensor.dims().begin(), tensor.dims().end());
  info.stored_as = onnx_type_name(tensor.data_type());
  info.dtype = onnx_dtype(tensor.data_type());
  info.file = path_;
  const OnnxType* type = find_type(tensor.data_type());
  std::uint64_t bits = type == nullptr ? 0 : type->bits;
  bool empty = false;
  for (const std::int64_t size : info.shape) {
    INGOT_CHECK(size >= 0,
                FormatError(path_, -1, info.name, fmt::format("has shape {}", to_string(info.shape))));
    empty = empty || size == 0;
    INGOT_CHECK(size == 0 || !__builtin_mul_overflow(bits, static_cast<std::uint64_t>(size), &bits),
                FormatError(path_, -1, info.name, fmt::format("shape {} overflows", to_string(info.shape))));
  }
  info.bytes = empty ? 0 : (bits + 7) / 8;
  if (is_external(tensor)) {
    info.offset = external_number(tensor, "offset", 0, path_);
    const std::uint64_t length = external_number(tensor, "length", info.bytes, path_);
    INGOT_CHECK(!info.dtype || length == info.bytes,
                FormatError(path_, -1, info.name,
                            fmt::format("external data has {} bytes, but {} {} takes {}", length,
                                        info.stored_as, to_string(info.shape), info.bytes)));
    info.file = (fs::path(path_).parent_path() / external_entry(tensor, "location")).string();
  }
  return info;
}

Blob OnnxFile::external_file(const std::string& location, const std::string& tensor) const {
  const std::lock_guard lock(mutex_);
  if (const auto found = external_.find(location); found != external_.end()) return found->second;
  const fs::path relative(location);
  const bool climbs = std::ranges::find(relative, fs::path("..")) != relative.end();
  INGOT_CHECK(
      !location.empty() && relative.is_relative() && !climbs && location.find('\0') == std::string::npos,
      FormatError(path_, -1, tensor,
                  fmt::format("external data in '{}', which is not below the model's directory",
                              printable(location))));
  const fs::path directory = fs::absolute(path_).parent_path();
  std::error_code code;
  const fs::path real = fs::weakly_canonical(directory / relative, code),
                 root = fs::weakly_canonical(directory, code);
  INGOT_CHECK(std::mismatch(root.begin(), root.end(), real.begin(), real.end()).first == root.end(),
              FormatError(path_, -1, tensor,
                          fmt::format("external data in '{}', a link out of the model's directory",
                                      printable(location))));
  return external_[location] = map_blob((directory / relative).string());
}

Blob OnnxFile::external_bytes(const ::onnx::TensorProto& tensor, const TensorInfo& info) const {
  const Blob file = external_file(external_entry(tensor, "location"), info.name);
  INGOT_CHECK(info.offset <= file.bytes.size() && info.bytes <= file.bytes.size() - info.offset,
              FormatError(file.name, static_cast<std::int64_t>(info.offset), info.name,
                          fmt::format("takes {} bytes from there, but the file has {}", info.bytes,
                                      file.bytes.size())));
  return part_of(file, info.offset, info.bytes);
}

Blob OnnxFile::bytes(const ::onnx::TensorProto& tensor) const {
  const TensorInfo info = describe(tensor);
  if (is_external(tensor)) return external_bytes(tensor, info);
  const auto check_size = [&](std::size_t bytes) {
    INGOT_CHECK(bytes == info.bytes,
                FormatError(path_, -1, info.name,
                            fmt::format("has {} bytes of values, but {} {} takes {}", bytes, info.stored_as,
                                        to_string(info.shape), info.bytes)));
  };
  if (!tensor.has_raw_data()) {
    Blob blob = memory_blob(path_, typed_values(tensor));
    check_size(blob.bytes.size());
    return blob;
  }
  const std::string& raw = tensor.raw_data();
  check_size(raw.size());
  // The message is ours alone, so its bytes may serve as the tensor's memory for as long as it lives.
  const auto bytes = std::as_writable_bytes(std::span(const_cast<char*>(raw.data()), raw.size()));
  if (std::shared_ptr<const OnnxFile> owner = weak_from_this().lock()) return {path_, bytes, owner, {}};
  return memory_blob(path_, {bytes.begin(), bytes.end()});
}

Tensor OnnxFile::load(const ::onnx::TensorProto& tensor) const {
  const TensorInfo info = describe(tensor);
  INGOT_CHECK(info.dtype.has_value(), NotImplemented(fmt::format("{}: loading '{}': element type {}", path_,
                                                                 info.name, info.stored_as)));
  INGOT_CHECK(info.shape.size() <= kMaxRank,
              NotImplemented(fmt::format("{}: loading '{}': shape {} has more than {} axes", path_, info.name,
                                         to_string(info.shape), kMaxRank)));
  const Blob blob = bytes(tensor);
  if (*info.dtype == DType::boolean) check_booleans(blob.bytes, blob.name, info.name);
  return tensor_in(blob, 0, Shape(std::span<const std::int64_t>(info.shape)), *info.dtype);
}

std::shared_ptr<const OnnxFile> OnnxFile::of_tensor(const std::string& name, const std::string& bytes) {
  auto model = std::make_unique<::onnx::ModelProto>();
  INGOT_CHECK(model->mutable_graph()->add_initializer()->ParseFromString(bytes),
              FormatError(name, 0, "tensor", "is not an ONNX tensor, or was cut short"));
  return std::shared_ptr<const OnnxFile>(new OnnxFile(name, std::move(model)));
}

Tensor OnnxFile::read_tensor(const std::string& path) {
  const std::shared_ptr<const OnnxFile> file = of_tensor(path, read_file(path));
  return file->load(file->model().graph().initializer(0));
}

}  // namespace ingot
