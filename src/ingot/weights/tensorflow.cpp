#include "ingot/weights/tensorflow.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/base/hash.h"
#include "ingot/base/protobuf_reader.h"
#include "ingot/weights/blob_source.h"
#include "ingot/weights/sorted_table.h"

namespace ingot {
namespace {

// Numbers and fields are those of tensorflow/core/framework/types.proto and protobuf/tensor_bundle.proto.
struct TensorFlowType {
  std::uint64_t id;
  std::string_view name;
  std::size_t bytes;
  std::optional<DType> dtype;
};
constexpr std::array<TensorFlowType, 18> kTensorFlowTypes{{{1, "float32", 4, DType::f32},
                                                           {2, "float64", 8, DType::f64},
                                                           {3, "int32", 4, DType::i32},
                                                           {4, "uint8", 1, DType::u8},
                                                           {5, "int16", 2, DType::i16},
                                                           {6, "int8", 1, DType::i8},
                                                           {7, "string", 0, {}},
                                                           {8, "complex64", 8, {}},
                                                           {9, "int64", 8, DType::i64},
                                                           {10, "bool", 1, DType::boolean},
                                                           {14, "bfloat16", 2, DType::bf16},
                                                           {17, "uint16", 2, {}},
                                                           {18, "complex128", 16, {}},
                                                           {19, "float16", 2, DType::f16},
                                                           {22, "uint32", 4, {}},
                                                           {23, "uint64", 8, {}},
                                                           {24, "float8_e5m2", 1, DType::f8e5m2},
                                                           {25, "float8_e4m3fn", 1, DType::f8e4m3}}};

struct Entry {
  std::uint64_t dtype = 0, shard = 0, offset = 0, size = 0;
  std::vector<std::int64_t> shape;
  std::optional<std::uint32_t> crc;
  bool sliced = false;
};

std::vector<std::int64_t> parse_shape(ProtobufReader reader) {
  std::vector<std::int64_t> shape;
  while (reader.next()) {
    if (reader.field() != 2) {
      reader.skip();
      continue;
    }
    ProtobufReader axis = reader.message();
    std::int64_t size = 0;
    while (axis.next()) {
      if (axis.field() == 1) {
        size = static_cast<std::int64_t>(axis.varint());
      } else {
        axis.skip();
      }
    }
    if (size < 0) axis.fail("an axis has a negative size");
    shape.push_back(size);
  }
  return shape;
}

Entry parse_entry(std::string_view value, const std::string& file) {
  Entry entry;
  ProtobufReader reader(value, file);
  while (reader.next()) {
    switch (reader.field()) {
      case 1:
        entry.dtype = reader.varint();
        break;
      case 2:
        entry.shape = parse_shape(reader.message());
        break;
      case 3:
        entry.shard = reader.varint();
        break;
      case 4:
        entry.offset = reader.varint();
        break;
      case 5:
        entry.size = reader.varint();
        break;
      case 6:
        entry.crc = reader.fixed32();
        break;
      case 7:
        entry.sliced = true;
        reader.skip();
        break;
      default:
        reader.skip();
    }
  }
  return entry;
}

class TensorFlowCheckpoint final : public WeightSource {
 public:
  TensorFlowCheckpoint(const Blob& index, const std::function<Blob(int, int)>& open_shard)
      : WeightSource(index.name) {
    const auto pairs = read_sorted_table(index.bytes, location());
    INGOT_CHECK(
        !pairs.empty() && pairs.front().first.empty(),
        FormatError(location(), 0, "header", "is missing: this table is not an index of a checkpoint"));
    const int shards = read_header(pairs.front().second);
    for (int i = 0; i < shards; ++i) shards_.push_back(open_shard(i, shards));
    std::vector<TensorInfo> tensors;
    for (const auto& [key, value] : std::span(pairs).subspan(1)) {
      const Entry entry = parse_entry(value, location());
      tensors.push_back(describe(key, entry));
      INGOT_CHECK(entries_.emplace(key, entry).second, FormatError(location(), -1, key, "is listed twice"));
    }
    set_contents(std::move(tensors), {});
  }

  std::string_view format() const override { return "tensorflow"; }
  WeightCapabilities capabilities() const override {
    return {.zero_copy = true, .concurrent = true, .preload = true};
  }
  void preload(std::span<const std::string> names) const override {
    for (const std::string& name : names) {
      const TensorInfo& info = get_metadata(name);
      will_need(shards_[entries_.at(name).shard], info.offset, info.bytes);
    }
  }

 protected:
  Tensor load(const TensorInfo& info) const override {
    check_loadable(*this, info);
    const Entry& entry = entries_.at(info.name);
    const Blob& shard = shards_[entry.shard];
    const auto bytes = shard.bytes.subspan(info.offset, info.bytes);
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    INGOT_CHECK(!entry.crc || *entry.crc == masked_crc32c(text),
                FormatError(info.file, static_cast<std::int64_t>(info.offset), info.name,
                            "its bytes do not have the CRC that the index says"));
    check_booleans(info, bytes);
    return tensor_in(shard, info.offset, Shape(std::span<const std::int64_t>(info.shape)), *info.dtype);
  }
  Blob stored(const TensorInfo& info) const override {
    return part_of(shards_[entries_.at(info.name).shard], info.offset, info.bytes);
  }

 private:
  int read_header(std::string_view value) const {
    std::uint64_t shards = 1, big_endian = 0;
    ProtobufReader reader(value, location());
    while (reader.next()) {
      if (reader.field() == 1) {
        shards = reader.varint();
      } else if (reader.field() == 2) {
        big_endian = reader.varint();
      } else {
        reader.skip();
      }
    }
    INGOT_CHECK(big_endian == 0, NotImplemented(location() + ": a big-endian checkpoint"));
    INGOT_CHECK(
        shards >= 1 && shards <= 99999,
        FormatError(location(), -1, "num_shards", fmt::format("is {}; 1 to 99999 are reasonable", shards)));
    return static_cast<int>(shards);
  }

  TensorInfo describe(const std::string& key, const Entry& entry) const {
    const auto fail = [&](const std::string& problem) { throw FormatError(location(), -1, key, problem); };
    const auto type = std::ranges::find(kTensorFlowTypes, entry.dtype, &TensorFlowType::id);
    if (entry.shard >= shards_.size())
      fail(fmt::format("lies in shard {} of {}", entry.shard, shards_.size()));
    const Blob& shard = shards_[entry.shard];
    if (entry.offset > shard.bytes.size() || entry.size > shard.bytes.size() - entry.offset) {
      fail(fmt::format("{} and {} bytes from there reach beyond the {} of {}; it was cut short", entry.offset,
                       entry.size, shard.bytes.size(), shard.name));
    }
    TensorInfo info;
    info.name = key;
    info.shape = entry.shape;
    info.stored_as =
        type == kTensorFlowTypes.end() ? fmt::format("type {}", entry.dtype) : std::string(type->name);
    info.bytes = entry.size;
    info.offset = entry.offset;
    info.file = shard.name;
    if (entry.sliced) info.stored_as += " (in slices)";
    std::uint64_t bytes = type == kTensorFlowTypes.end() ? 1 : std::max<std::size_t>(type->bytes, 1);
    bool empty = false;
    for (const std::int64_t size : info.shape) {
      empty |= size == 0;
      if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(std::max<std::int64_t>(size, 1)),
                                 &bytes) ||
          bytes > INT64_MAX) {
        fail(fmt::format("shape {} overflows", to_string(info.shape)));
      }
    }
    if (type == kTensorFlowTypes.end() || !type->dtype || entry.sliced) return info;
    info.dtype = type->dtype;
    if (entry.size != (empty ? 0 : bytes)) {
      fail(fmt::format("has {} bytes, but shape {} of {} takes {}", entry.size, to_string(info.shape),
                       info.stored_as, empty ? 0 : bytes));
    }
    return info;
  }

  std::vector<Blob> shards_;
  std::map<std::string, Entry, std::less<>> entries_;
};

}  // namespace

std::unique_ptr<WeightSource> open_tensorflow(Blob index, const std::function<Blob(int, int)>& open_shard) {
  return std::make_unique<TensorFlowCheckpoint>(index, open_shard);
}

std::unique_ptr<WeightSource> open_tensorflow(const std::string& path) {
  const std::string prefix = path.ends_with(".index") ? path.substr(0, path.size() - 6) : path;
  return open_tensorflow(map_blob(prefix + ".index"), [&](int shard, int shards) {
    const std::string file = fmt::format("{}.data-{:05}-of-{:05}", prefix, shard, shards);
    INGOT_CHECK(std::filesystem::exists(file),
                IoError(file, fmt::format("is missing; {}.index needs it", prefix)));
    return map_blob(file);
  });
}

}  // namespace ingot
