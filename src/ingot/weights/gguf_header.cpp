#include <algorithm>
#include <bit>
#include <set>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/quant/block_format.h"
#include "ingot/weights/byte_reader.h"
#include "ingot/weights/ggml_type.h"
#include "ingot/weights/gguf.h"

namespace ingot {
namespace {

// Real headers, vocabulary included, have some ten megabytes; in memory they grow up to eightfold.
constexpr std::uint64_t kMaxHeader = 512'000'000;
constexpr int kMaxNesting = 4;
constexpr std::size_t kMaxKeyBytes = 65535;

class GgufHeaderReader {
 public:
  GgufHeaderReader(std::span<const std::byte> start, std::uint64_t file_size, const std::string& file)
      : reader_(start, file), file_size_(file_size) {}

  GgufHeader read() {
    GgufHeader header;
    header.metadata = GgufMetadata(reader_.file());
    read_version();
    const auto tensor_count = reader_.read<std::uint64_t>("tensor_count");
    reader_.require_items(tensor_count, 24, "tensor_count");  // name length, n_dims, type, offset
    const auto pair_count = reader_.read<std::uint64_t>("metadata_kv_count");
    reader_.require_items(pair_count, 13, "metadata_kv_count");  // key length, type, a byte
    read_metadata(header.metadata, pair_count);
    read_alignment(header);
    header.tensors.reserve(tensor_count);
    std::set<std::string_view> names;
    for (std::uint64_t i = 0; i < tensor_count; ++i) {
      header.tensors.push_back(read_tensor());
    }
    for (const TensorInfo& tensor : header.tensors) {
      if (!names.insert(tensor.name).second) reader_.fail(tensor.name, "two tensors have this name");
    }
    header.data_begin = (reader_.at() + header.alignment - 1) / header.alignment * header.alignment;
    check_places(header);
    return header;
  }

 private:
  void read_version() {
    if (reader_.remaining() < 4 || reader_.text(4, "magic") != "GGUF") {
      reader_.fail_at(0, "magic", "is not 'GGUF'");
    }
    const auto version = reader_.read<std::uint32_t>("version");
    if (version != 0 && (version & 0xffff) == 0) {
      reader_.fail_at(4, "version",
                      "the file is big-endian; convert it with gguf-py's gguf_convert_endian.py");
    }
    if (version != 2 && version != 3) {
      reader_.fail_at(4, "version", fmt::format("is {}; 2 and 3 can be read", version));
    }
  }

  std::string_view read_string(std::string_view field) {
    const auto size = reader_.read<std::uint64_t>(field);
    return reader_.text(size, field);
  }

  void read_metadata(GgufMetadata& metadata, std::uint64_t count) {
    std::set<std::string, std::less<>> keys;
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::size_t at = reader_.at();
      std::string key(read_string("metadata key"));
      if (key.empty() || key.size() > kMaxKeyBytes) {
        reader_.fail_at(at, "metadata key",
                        fmt::format("has {} bytes; 1 to {} are allowed", key.size(), kMaxKeyBytes));
      }
      if (!keys.insert(key).second) reader_.fail_at(at, key, "is given twice");
      GgufValue value = read_value(key, read_type(key), 0);
      metadata.append(std::move(key), std::move(value));
      if (reader_.at() > kMaxHeader) {
        reader_.fail("metadata", fmt::format("goes on beyond {} bytes; no real file does", kMaxHeader));
      }
    }
  }

  GgufType read_type(const std::string& key) {
    const std::size_t at = reader_.at();
    const auto type = reader_.read<std::uint32_t>(key);
    if (type > static_cast<std::uint32_t>(GgufType::f64)) {
      reader_.fail_at(at, key, fmt::format("has type {}; 0 to 12 are known", type));
    }
    return static_cast<GgufType>(type);
  }

  GgufValue read_value(const std::string& key, GgufType type, int depth) {
    if (type != GgufType::array) return {type, false, read_items(key, type, 1, depth)};
    if (depth == kMaxNesting) reader_.fail(key, fmt::format("nests more than {} arrays", kMaxNesting));
    const GgufType element = read_type(key);
    const std::size_t at = reader_.at();
    const auto count = reader_.read<std::uint64_t>(key);
    static constexpr std::array<std::size_t, 13> kBytes{1, 1, 2, 2, 4, 4, 4, 1, 8, 12, 8, 8, 8};
    const std::size_t each = kBytes.at(static_cast<std::size_t>(element));
    reader_.require_items(count, each, key);
    if (count * each > kMaxHeader) {
      reader_.fail_at(at, key, fmt::format("has {} elements; no real file has that many", count));
    }
    return {element, true, read_items(key, element, count, depth)};
  }

  /// Values take up to eight times the file's size in memory.
  void charge(const std::string& key, std::uint64_t count, std::size_t each) {
    constexpr std::uint64_t kMostMemory = std::uint64_t{512} << 20;
    memory_ += count * each;
    if (memory_ > kMostMemory)
      reader_.fail(key, fmt::format("the metadata takes more than {} bytes of memory; no real file's does",
                                    kMostMemory));
  }

  template <class T, class As>
  std::vector<As> numbers(const std::string& key, std::uint64_t count) {
    charge(key, count, sizeof(As));
    std::vector<As> list(count);
    for (As& item : list) item = static_cast<As>(reader_.read<T>(key));
    return list;
  }

  GgufValue::Items read_items(const std::string& key, GgufType type, std::uint64_t count, int depth) {
    switch (type) {
      case GgufType::u8:
        return numbers<std::uint8_t, std::uint64_t>(key, count);
      case GgufType::i8:
        return numbers<std::int8_t, std::int64_t>(key, count);
      case GgufType::u16:
        return numbers<std::uint16_t, std::uint64_t>(key, count);
      case GgufType::i16:
        return numbers<std::int16_t, std::int64_t>(key, count);
      case GgufType::u32:
        return numbers<std::uint32_t, std::uint64_t>(key, count);
      case GgufType::i32:
        return numbers<std::int32_t, std::int64_t>(key, count);
      case GgufType::u64:
        return numbers<std::uint64_t, std::uint64_t>(key, count);
      case GgufType::i64:
        return numbers<std::int64_t, std::int64_t>(key, count);
      case GgufType::f32:
        return numbers<float, double>(key, count);
      case GgufType::f64:
        return numbers<double, double>(key, count);
      case GgufType::boolean:
        return booleans(key, count);
      case GgufType::string: {
        charge(key, count, sizeof(std::string));
        std::vector<std::string> list;
        list.reserve(count);
        for (std::uint64_t i = 0; i < count; ++i) {
          const std::string_view item = read_string(key);
          charge(key, item.size(), 1);
          list.emplace_back(item);
        }
        return list;
      }
      case GgufType::array:
        break;
    }
    charge(key, count, 2 * sizeof(GgufValue));
    std::vector<GgufValue> list;
    for (std::uint64_t i = 0; i < count; ++i) list.push_back(read_value(key, GgufType::array, depth + 1));
    return list;
  }

  std::vector<std::uint64_t> booleans(const std::string& key, std::uint64_t count) {
    const std::size_t at = reader_.at();
    std::vector<std::uint64_t> list = numbers<std::uint8_t, std::uint64_t>(key, count);
    for (const std::uint64_t value : list) {
      if (value > 1)
        reader_.fail_at(at, key, fmt::format("holds {} as a boolean; 0 and 1 are allowed", value));
    }
    return list;
  }

  void read_alignment(GgufHeader& header) {
    const auto alignment = header.metadata.integer("general.alignment");
    if (!alignment) return;
    if (*alignment <= 0 || *alignment > (1 << 24) ||
        !std::has_single_bit(static_cast<std::uint64_t>(*alignment))) {
      reader_.fail("general.alignment", fmt::format("is {}; a power of two is expected", *alignment));
    }
    header.alignment = static_cast<std::uint64_t>(*alignment);
  }

  TensorInfo read_tensor() {
    TensorInfo info;
    info.name = read_string("tensor name");
    info.file = reader_.file();
    const std::size_t at = reader_.at();
    const auto axes = reader_.read<std::uint32_t>(info.name);
    if (axes > kMaxGgufAxes) {
      reader_.fail_at(at, info.name, fmt::format("has {} axes; at most {} are allowed", axes, kMaxGgufAxes));
    }
    for (std::uint32_t i = 0; i < axes; ++i) {
      const auto size = reader_.read<std::uint64_t>(info.name);
      if (size > INT64_MAX) reader_.fail_at(at, info.name, fmt::format("has an axis of size {}", size));
      info.shape.insert(info.shape.begin(), static_cast<std::int64_t>(size));
    }
    const std::size_t type_at = reader_.at();
    const auto type_id = reader_.read<std::uint32_t>(info.name);
    const GgmlType* type = find_ggml_type(type_id);
    if (type == nullptr) {
      reader_.fail_at(type_at, info.name, fmt::format("has element type {}, which is not known", type_id));
    }
    set_size(info, *type, at);
    info.offset = reader_.read<std::uint64_t>(info.name);
    return info;
  }

  void set_size(TensorInfo& info, const GgmlType& type, std::size_t at) {
    // Zeros count as one in between, so that the product of the others is known to fit as well.
    std::uint64_t elements = 1;
    for (const std::int64_t size : info.shape) {
      if (__builtin_mul_overflow(elements, static_cast<std::uint64_t>(std::max<std::int64_t>(size, 1)),
                                 &elements) ||
          elements > INT64_MAX / 8) {
        reader_.fail_at(at, info.name, fmt::format("shape {} overflows", to_string(info.shape)));
      }
    }
    const std::int64_t row = info.shape.empty() ? 1 : info.shape.back();
    if (row % type.block_elements != 0) {
      reader_.fail_at(at, info.name,
                      fmt::format("rows of {} elements are not whole blocks of {} ({})", row,
                                  type.block_elements, type.name));
    }
    info.stored_as = type.name;
    info.dtype = type.dtype;
    if (quant::find_block_format(static_cast<int>(type.id)) != nullptr) info.dtype = DType::f32;
    info.bytes = type.bytes(static_cast<std::uint64_t>(info.numel()));
  }

  void check_places(GgufHeader& header) {
    if (header.tensors.empty()) return;
    if (file_size_ < header.data_begin) {
      reader_.fail("data", fmt::format("begins at byte {} of {}; the file was cut short", header.data_begin,
                                       file_size_));
    }
    const std::uint64_t data_size = file_size_ - header.data_begin;
    std::vector<const TensorInfo*> order;
    for (TensorInfo& tensor : header.tensors) {
      const std::string field = tensor.name + ".offset";
      if (tensor.offset % header.alignment != 0) {
        reader_.fail(field,
                     fmt::format("is {}, no multiple of the alignment {}", tensor.offset, header.alignment));
      }
      if (tensor.offset > data_size || tensor.bytes > data_size - tensor.offset) {
        reader_.fail(field,
                     fmt::format("{} and {} bytes from there reach beyond the file's {} bytes of data; "
                                 "it was cut short",
                                 tensor.offset, tensor.bytes, data_size));
      }
      tensor.offset += header.data_begin;
      if (tensor.bytes > 0) order.push_back(&tensor);
    }
    std::ranges::sort(order, {}, &TensorInfo::offset);
    for (std::size_t i = 1; i < order.size(); ++i) {
      if (order[i - 1]->offset + order[i - 1]->bytes > order[i]->offset) {
        reader_.fail(order[i]->name + ".offset",
                     fmt::format("lies inside '{}': they overlap", order[i - 1]->name));
      }
    }
  }

  ByteReader reader_;
  std::uint64_t file_size_;
  std::uint64_t memory_ = 0;  // of the metadata
};

}  // namespace

GgufHeader parse_gguf_header(std::span<const std::byte> start, std::uint64_t file_size,
                             const std::string& file) {
  return GgufHeaderReader(start, file_size, file).read();
}

}  // namespace ingot
