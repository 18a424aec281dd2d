#include "ingot/weights/gguf_writer.h"

#include <bit>
#include <filesystem>
#include <set>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/scope.h"
#include "ingot/weights/tensor_bytes.h"

namespace ingot {
namespace {

constexpr std::uint32_t kVersion = 3;
constexpr std::size_t kMaxParts = 65535;  // split.count has 16 bits

std::uint64_t padded(std::uint64_t size, std::uint64_t alignment) {
  return (size + alignment - 1) / alignment * alignment;
}

/// Everything before the data, built in memory: offsets of tensors count from the data's begin.
class HeaderBuilder {
 public:
  template <class T>
  void number(T value) {
    const auto* bytes = reinterpret_cast<const char*>(&value);
    text_.append(bytes, sizeof value);
  }
  void string(std::string_view value) {
    number<std::uint64_t>(value.size());
    text_ += value;
  }
  void value(const GgufValue& value) {
    if (value.is_array) {
      number(static_cast<std::uint32_t>(GgufType::array));
      number(static_cast<std::uint32_t>(value.type));
      number<std::uint64_t>(value.size());
    } else {
      number(static_cast<std::uint32_t>(value.type));
    }
    std::visit([&](const auto& list) { items(value.type, list); }, value.items);
  }
  std::string& text() { return text_; }

 private:
  void items(GgufType, const std::vector<std::string>& list) {
    for (const std::string& item : list) string(item);
  }
  void items(GgufType, const std::vector<GgufValue>& list) {
    for (const GgufValue& item : list) {  // an array inside an array names its type, but not that it is one
      number(static_cast<std::uint32_t>(item.type));
      number<std::uint64_t>(item.size());
      std::visit([&](const auto& inner) { items(item.type, inner); }, item.items);
    }
  }
  template <class T>
  void items(GgufType type, const std::vector<T>& list) {
    for (const T item : list) {
      switch (type) {
        case GgufType::u8:
        case GgufType::i8:
        case GgufType::boolean:
          number(static_cast<std::uint8_t>(item));
          break;
        case GgufType::u16:
        case GgufType::i16:
          number(static_cast<std::uint16_t>(item));
          break;
        case GgufType::u32:
        case GgufType::i32:
          number(static_cast<std::uint32_t>(item));
          break;
        case GgufType::f32:
          number(static_cast<float>(item));
          break;
        default:
          number(item);
      }
    }
  }

  std::string text_;
};

void check(const GgufTensor& tensor, std::set<std::string_view>& names) {
  INGOT_CHECK(names.insert(tensor.name).second,
              InvalidConfig(tensor.name, "two tensors to be stored have this name"));
  INGOT_CHECK(tensor.shape.size() <= kMaxGgufAxes,
              InvalidConfig(tensor.name,
                            fmt::format("has {} axes; GGUF allows {}", tensor.shape.size(), kMaxGgufAxes)));
  const std::int64_t row = tensor.shape.empty() ? 1 : tensor.shape.back();
  INGOT_CHECK(
      row % tensor.type->block_elements == 0,
      InvalidConfig(tensor.name, fmt::format("rows of {} elements are not whole blocks of {} ({}); choose "
                                             "another type for it",
                                             row, tensor.type->block_elements, tensor.type->name)));
}

std::uint64_t bytes_of(const GgufTensor& tensor) {
  std::uint64_t elements = 1;
  for (const std::int64_t size : tensor.shape) elements *= static_cast<std::uint64_t>(size);
  return tensor.type->bytes(elements);
}

std::string gguf_header_text(const GgufMetadata& metadata, std::span<const GgufTensor> tensors,
                             std::uint64_t alignment) {
  HeaderBuilder header;
  header.text() = "GGUF";
  header.number(kVersion);
  header.number<std::uint64_t>(tensors.size());
  header.number<std::uint64_t>(metadata.entries().size());
  for (const auto& [key, value] : metadata.entries()) {
    header.string(key);
    header.value(value);
  }
  std::uint64_t offset = 0;
  for (const GgufTensor& tensor : tensors) {
    header.string(tensor.name);
    header.number(static_cast<std::uint32_t>(tensor.shape.size()));
    for (std::size_t i = tensor.shape.size(); i-- > 0;)
      header.number(static_cast<std::uint64_t>(tensor.shape[i]));
    header.number(tensor.type->id);
    header.number(offset);
    offset += padded(bytes_of(tensor), alignment);
  }
  header.text().resize(padded(header.text().size(), alignment), '\0');
  return std::move(header.text());
}

/// How many tensors go into each part.
std::vector<std::size_t> plan_parts(std::span<const GgufTensor> tensors, std::uint64_t max_bytes) {
  std::vector<std::size_t> counts{0};
  std::uint64_t filled = 0;
  for (const GgufTensor& tensor : tensors) {
    const std::uint64_t bytes = bytes_of(tensor);
    if (counts.back() > 0 && filled + bytes > max_bytes) {
      counts.push_back(0);
      filled = 0;
    }
    ++counts.back();
    filled += bytes;
  }
  return counts;
}

GgufMetadata part_metadata(const GgufMetadata& all, std::size_t part, std::size_t parts,
                           std::size_t tensors) {
  GgufMetadata metadata;
  if (part == 0) {
    metadata = all;
  } else if (const GgufValue* alignment = all.find("general.alignment")) {
    metadata.set("general.alignment", *alignment);  // each file is laid out by its own
  }
  metadata.set("split.no", GgufValue::of_u16(static_cast<std::uint16_t>(part)));
  metadata.set("split.count", GgufValue::of_u16(static_cast<std::uint16_t>(parts)));
  metadata.set("split.tensors.count", GgufValue::of_i32(static_cast<std::int32_t>(tensors)));
  return metadata;
}

}  // namespace

GgufTensor GgufTensor::of(StoredTensor tensor) {
  const GgmlType* type = ggml_type_of(tensor.dtype);
  INGOT_CHECK(
      type != nullptr,
      InvalidConfig(tensor.name, fmt::format("GGUF has no element type for {}; convert it to f32 or i8 first",
                                             ingot::name(tensor.dtype))));
  GgufTensor out{tensor.name, tensor.shape.to_vector(), type, {}};
  out.write = [source = std::move(tensor)](Sink sink) {
    const Tensor values = source.values();
    INGOT_CHECK(values.defined() && values.shape() == source.shape && values.dtype() == source.dtype,
                Error("storing '" + source.name + "': its values are not what was announced"));
    for_each_byte_range(values, sink);
  };
  return out;
}

void write_gguf(const std::string& path, const GgufMetadata& metadata, std::span<const GgufTensor> tensors) {
  const std::int64_t wanted = metadata.integer("general.alignment").value_or(32);
  INGOT_CHECK(wanted > 0 && std::has_single_bit(static_cast<std::uint64_t>(wanted)),
              InvalidConfig("general.alignment", fmt::format("is {}; a power of two is expected", wanted)));
  const auto alignment = static_cast<std::uint64_t>(wanted);
  std::set<std::string_view> names;
  for (const GgufTensor& tensor : tensors) check(tensor, names);
  const std::string header = gguf_header_text(metadata, tensors, alignment);
  const std::string zeros(alignment, '\0');
  write_file_atomically(path, [&](FileWriter& out) {
    out.write(header);
    for (const GgufTensor& tensor : tensors) {
      const Scope scope(ScopeKind::file, tensor.name);
      const std::uint64_t begin = out.size();
      tensor.write([&](std::span<const std::byte> bytes) { out.write(bytes); });
      const std::uint64_t written = out.size() - begin;
      INGOT_CHECK(written == bytes_of(tensor),
                  Error(fmt::format("storing '{}': {} bytes came, {} were announced", tensor.name, written,
                                    bytes_of(tensor))));
      out.write(std::string_view(zeros).substr(0, padded(written, alignment) - written));
    }
  });
}

std::vector<std::string> write_gguf_parts(const std::string& path, const GgufMetadata& metadata,
                                          std::span<const GgufTensor> tensors, std::uint64_t max_bytes) {
  const std::vector<std::size_t> counts = plan_parts(tensors, max_bytes);
  if (counts.size() == 1) {
    write_gguf(path, metadata, tensors);
    return {path};
  }
  INGOT_CHECK(counts.size() <= kMaxParts,
              InvalidConfig("max_shard_size", fmt::format("of {} bytes would make {} files; {} is the most",
                                                          max_bytes, counts.size(), kMaxParts)));
  std::set<std::string_view> names;
  for (const GgufTensor& tensor : tensors) check(tensor, names);
  const std::string name = path.ends_with(".gguf") ? path.substr(0, path.size() - 5) : path;
  std::vector<std::string> written;
  try {
    for (std::size_t part = 0, first = 0; part < counts.size(); first += counts[part++]) {
      const std::string file = fmt::format("{}-{:05}-of-{:05}.gguf", name, part + 1, counts.size());
      write_gguf(file, part_metadata(metadata, part, counts.size(), tensors.size()),
                 tensors.subspan(first, counts[part]));
      written.push_back(file);
    }
  } catch (...) {
    std::error_code ignored;
    for (const std::string& file : written) std::filesystem::remove(file, ignored);
    throw;
  }
  return written;
}

}  // namespace ingot
