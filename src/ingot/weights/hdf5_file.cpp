#include "ingot/weights/hdf5_file.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "ingot/base/error.h"

namespace ingot {
namespace {

constexpr std::string_view kSignature = "\x89HDF\r\n\x1a\n";
constexpr std::uint64_t kUndefined = ~std::uint64_t{0};
constexpr int kMaxGroupDepth = 64;  // of groups, and of the trees that index them
constexpr std::size_t kMaxObjects = 1'000'000;

enum Message : std::uint16_t {
  kDataspace = 0x01,
  kLinkInfo = 0x02,
  kDatatype = 0x03,
  kLink = 0x06,
  kLayout = 0x08,
  kFilters = 0x0b,
  kAttribute = 0x0c,
  kContinuation = 0x10,
  kSymbolTable = 0x11
};

struct HeaderMessage {
  std::uint16_t type;
  std::size_t at, size;
};

Hdf5Type read_type(ByteReader& reader) {
  const auto head = reader.read<std::uint8_t>("datatype");
  const std::uint64_t bits = reader.read_uint(3, "datatype");
  Hdf5Type type;
  type.size = reader.read<std::uint32_t>("datatype");
  type.big_endian = (bits & 1) != 0;
  switch (head & 15) {
    case 0:
      type.kind = Hdf5Type::Kind::integer;
      type.is_signed = (bits & 8) != 0;
      break;
    case 1:
      type.kind = Hdf5Type::Kind::floating;
      reader.take(5, "datatype");  // bit offset, precision, offset of the exponent
      type.exponent_bits = reader.read<std::uint8_t>("datatype");
      reader.take(1, "datatype");
      type.mantissa_bits = reader.read<std::uint8_t>("datatype");
      break;
    case 3:
      type.kind = Hdf5Type::Kind::string;
      break;
    case 8:
      type.kind = Hdf5Type::Kind::enumeration;
      break;
    case 9:
      type.kind = Hdf5Type::Kind::variable;
      break;
    default:
      break;
  }
  return type;
}

std::vector<std::int64_t> read_dataspace(ByteReader& reader) {
  const std::size_t at = reader.at();
  const auto version = reader.read<std::uint8_t>("dataspace"), rank = reader.read<std::uint8_t>("dataspace");
  reader.read<std::uint8_t>("dataspace");
  if (version == 1) {
    reader.take(5, "dataspace");
  } else if (version == 2) {
    if (reader.read<std::uint8_t>("dataspace") == 2) return {0};  // a space without elements
  } else {
    reader.fail_at(at, "dataspace", fmt::format("has version {}; 1 and 2 are known", version));
  }
  if (rank > 32) reader.fail_at(at, "dataspace", fmt::format("has {} axes; HDF5 allows 32", rank));
  std::vector<std::int64_t> shape;
  for (int i = 0; i < rank; ++i) {
    const auto size = reader.read<std::uint64_t>("dataspace");
    if (size > INT64_MAX) reader.fail_at(at, "dataspace", fmt::format("has an axis of size {}", size));
    shape.push_back(static_cast<std::int64_t>(size));
  }
  return shape;
}

class Walker {
 public:
  Walker(std::span<const std::byte> bytes, const std::string& file) : bytes_(bytes), file_(file) {}

  Hdf5Contents run() {
    const std::uint64_t root = read_superblock();
    read_attributes(root);
    walk(root, "", 0);
    return std::move(contents_);
  }

 private:
  ByteReader at(std::uint64_t address, std::string_view field) const {
    ByteReader reader(bytes_, file_);
    std::uint64_t place = 0;
    if (address == kUndefined || __builtin_add_overflow(address, base_, &place)) {
      reader.fail_at(0, field, "has an address that leads nowhere");
    }
    reader.seek(place, field);
    return reader;
  }

  std::uint64_t read_superblock() {
    ByteReader reader(bytes_, file_);
    if (reader.remaining() < 8 || reader.text(8, "signature") != kSignature) {
      reader.fail_at(0, "signature", "is not HDF5's");
    }
    const auto version = reader.read<std::uint8_t>("superblock version");
    if (version > 3) reader.fail("superblock version", fmt::format("is {}; 0 to 3 can be read", version));
    if (version < 2) reader.take(4, "superblock");
    const auto offsets = reader.read<std::uint8_t>("superblock"),
               lengths = reader.read<std::uint8_t>("superblock");
    if (offsets != 8 || lengths != 8) {
      reader.fail("superblock", fmt::format("has addresses of {} and lengths of {} bytes; 8 can be read",
                                            offsets, lengths));
    }
    reader.take(version < 2 ? (version == 1 ? 13 : 9) : 1, "superblock");  // tree ranks, flags
    base_ = reader.read<std::uint64_t>("base address");
    reader.take(8, "superblock");
    const auto end = reader.read<std::uint64_t>("end of file");
    if (base_ > bytes_.size() || end > bytes_.size() - base_) {
      reader.fail("end of file",
                  fmt::format("is {}, but the file has {} bytes; it was cut short", end, bytes_.size()));
    }
    if (version >= 2) return reader.read<std::uint64_t>("root object");
    reader.take(16, "superblock");  // driver information, and the offset of the root's name
    return reader.read<std::uint64_t>("root object");
  }

  /// All messages of an object header, those in continuation blocks too.
  std::vector<HeaderMessage> messages(std::uint64_t address) const {
    ByteReader reader = at(address, "object header");
    std::vector<HeaderMessage> found;
    if (reader.remaining() == 0) reader.fail("object header", "would begin where the file ends");
    const bool newer = bytes_[reader.at()] == std::byte{'O'};
    bool ordered = false;
    std::vector<std::pair<std::uint64_t, std::uint64_t>> blocks;  // offset and size of messages
    if (newer) {
      if (reader.text(4, "object header") != "OHDR") reader.fail("object header", "is none");
      reader.read<std::uint8_t>("object header");
      const auto flags = reader.read<std::uint8_t>("object header");
      ordered = (flags & 4) != 0;
      if ((flags & 0x20) != 0) reader.take(16, "object header");
      if ((flags & 0x10) != 0) reader.take(4, "object header");
      const std::uint64_t size = reader.read_uint(std::size_t{1} << (flags & 3), "object header");
      blocks.emplace_back(reader.at(), size);
    } else {
      if (reader.read<std::uint8_t>("object header") != 1)
        reader.fail("object header", "is of an unknown version");
      reader.take(7, "object header");
      const auto size = reader.read<std::uint32_t>("object header");
      reader.take(4, "object header");
      blocks.emplace_back(reader.at(), size);
    }
    std::uint64_t total = 0;
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      total += blocks[i].second + 1;
      if (total > bytes_.size()) reader.fail("object header", "is larger than the file");
      headers_ += blocks[i].second + 1;
      if (headers_ > 4 * bytes_.size()) reader.fail("object header", "shares its bytes with many others");
      read_block(blocks[i], newer, ordered, found, blocks);
    }
    return found;
  }

  void read_block(std::pair<std::uint64_t, std::uint64_t> block, bool newer, bool ordered,
                  std::vector<HeaderMessage>& found,
                  std::vector<std::pair<std::uint64_t, std::uint64_t>>& blocks) const {
    ByteReader reader(bytes_, file_);
    reader.seek(block.first, "object header");
    const std::size_t end = reader.at() + reader.take(block.second, "object header").size();
    const std::size_t head = newer ? (ordered ? 6 : 4) : 8;
    reader.seek(block.first, "object header");
    while (reader.at() + head <= end) {
      HeaderMessage message{};
      message.type = newer ? reader.read<std::uint8_t>("message") : reader.read<std::uint16_t>("message");
      message.size = reader.read<std::uint16_t>("message");
      const auto flags = reader.read<std::uint8_t>("message");
      reader.take(newer ? (ordered ? 2 : 0) : 3, "message");
      message.at = reader.at();
      if (message.size > end - reader.at()) reader.fail("message", "reaches beyond its object header");
      if (message.type == kContinuation) {
        const auto place = reader.read<std::uint64_t>("continuation");
        const auto size = reader.read<std::uint64_t>("continuation");
        ByteReader next = at(place, "continuation");
        if (newer && (size < 8 || next.text(4, "continuation") != "OCHK")) {
          next.fail("continuation", "is not a block of messages");
        }
        blocks.emplace_back(next.at(), newer ? size - 8 : size);
      } else if ((flags & 2) == 0) {  // shared messages lie elsewhere; h5py does not write them
        found.push_back(message);
      }
      reader.seek(message.at + message.size, "message");
    }
  }

  ByteReader body(const HeaderMessage& message) const {
    return {bytes_.first(message.at + message.size), file_, message.at};
  }

  void walk(std::uint64_t address, const std::string& path, int depth) {
    if (depth > kMaxGroupDepth)
      at(address, path).fail(path, fmt::format("nests more than {} groups", kMaxGroupDepth));
    if (!seen_.insert(address).second) return;  // a second name of the same object, or a circle
    if (++objects_ > kMaxObjects)
      at(address, path).fail(path, fmt::format("there are more than {} objects", kMaxObjects));
    const std::vector<HeaderMessage> all = messages(address);
    const auto has = [&all](Message type) {
      return std::ranges::find(all, type, &HeaderMessage::type) != all.end();
    };
    if (has(kDatatype) && has(kLayout)) {
      contents_.datasets.push_back(read_dataset(all, path));
      return;
    }
    for (const HeaderMessage& message : all) {
      ByteReader reader = body(message);
      if (message.type == kSymbolTable) {
        const auto tree = reader.read<std::uint64_t>("symbol table"),
                   heap = reader.read<std::uint64_t>("symbol table");
        walk_symbols(tree, heap_data(heap), path, depth, kMaxGroupDepth);
      } else if (message.type == kLink) {
        walk_link(reader, path, depth);
      } else if (message.type == kLinkInfo) {
        const auto version_and_flags = reader.read<std::uint16_t>("link info");
        if ((version_and_flags & 0x100) != 0) reader.take(8, "link info");
        INGOT_CHECK(
            reader.read<std::uint64_t>("link info") == kUndefined,
            NotImplemented(fmt::format("{}: the group '{}' has too many links for its header", file_, path)));
      }
    }
  }

  /// Objects can share their texts' bytes: what becomes of them may not be a multiple of the file.
  void charge_text(std::size_t size, std::string_view field) {
    constexpr std::size_t kTimes = 64, kAnyway = std::size_t{1} << 20;
    texts_ += size;
    if (texts_ > kTimes * bytes_.size() + kAnyway)
      ByteReader(bytes_, file_).fail(field, "the names and texts take more room than they can");
  }
  std::string joined(const std::string& path, std::string_view name) {
    charge_text(path.size() + name.size(), name.substr(0, 80));
    return path.empty() ? std::string(name) : path + "/" + std::string(name);
  }

  /// Each takes 16 bytes of its own: more than those of the file are read twice.
  void charge_entries(const ByteReader& reader, std::size_t count) {
    entries_ += count;
    if (entries_ > bytes_.size() / 16) reader.fail("symbol table", "shares its bytes with many others");
  }

  void walk_link(ByteReader& reader, const std::string& path, int depth) {
    reader.read<std::uint8_t>("link");
    const auto flags = reader.read<std::uint8_t>("link");
    const int type = (flags & 8) != 0 ? reader.read<std::uint8_t>("link") : 0;
    if ((flags & 4) != 0) reader.take(8, "link");
    if ((flags & 0x10) != 0) reader.take(1, "link");
    const std::uint64_t length = reader.read_uint(std::size_t{1} << (flags & 3), "link");
    const std::string_view name = reader.text(length, "link");
    if (type == 0) walk(reader.read<std::uint64_t>("link"), joined(path, name), depth + 1);
  }

  /// The text of a local heap, where names stand.
  std::string_view heap_data(std::uint64_t address) const {
    ByteReader reader = at(address, "local heap");
    if (reader.text(4, "local heap") != "HEAP") reader.fail("local heap", "is none");
    reader.take(4, "local heap");
    const auto size = reader.read<std::uint64_t>("local heap");
    reader.take(8, "local heap");
    return at(reader.read<std::uint64_t>("local heap"), "local heap").text(size, "local heap");
  }

  void walk_symbols(std::uint64_t address, std::string_view names, const std::string& path, int depth,
                    int levels) {
    ByteReader reader = at(address, "symbol table");
    const std::string_view kind = reader.text(4, "symbol table");
    if (kind == "SNOD") {
      if (!seen_.insert(address).second) reader.fail("symbol table", "stands in its tree twice");
      reader.take(2, "symbol table");
      const auto count = reader.read<std::uint16_t>("symbol table");
      charge_entries(reader, count);
      for (int i = 0; i < count; ++i) {
        const auto name = reader.read<std::uint64_t>("symbol name"),
                   object = reader.read<std::uint64_t>("symbol");
        const auto cached = reader.read<std::uint32_t>("symbol");
        reader.take(20, "symbol");
        const std::size_t end = name < names.size() ? names.find('\0', name) : std::string_view::npos;
        if (end == std::string_view::npos) reader.fail("symbol name", "lies outside the heap of names");
        const std::string full = joined(path, names.substr(name, end - name));
        if (cached != 2) walk(object, full, depth + 1);  // 2: a symbolic link
      }
      return;
    }
    if (kind != "TREE" || levels == 0 || !seen_.insert(address).second) {
      reader.fail("symbol table", "is not a tree of symbols");
    }
    reader.take(2, "symbol table");
    const auto count = reader.read<std::uint16_t>("symbol table");
    charge_entries(reader, count);
    reader.take(16 + 8, "symbol table");  // siblings, first key
    for (int i = 0; i < count; ++i) {
      const auto child = reader.read<std::uint64_t>("symbol table");
      reader.take(8, "symbol table");
      walk_symbols(child, names, path, depth, levels - 1);
    }
  }

  Hdf5Dataset read_dataset(const std::vector<HeaderMessage>& all, const std::string& path) const {
    Hdf5Dataset dataset;
    dataset.path = path;
    for (const HeaderMessage& message : all) {
      ByteReader reader = body(message);
      if (message.type == kDataspace) dataset.shape = read_dataspace(reader);
      if (message.type == kDatatype) dataset.type = read_type(reader);
      if (message.type == kLayout) dataset.layout = read_layout(reader, path);
      if (message.type == kFilters) dataset.filters = read_filters(reader);
    }
    if (dataset.type.size == 0) at(0, path).fail(path, "has elements of no size");
    return dataset;
  }

  Hdf5Layout read_layout(ByteReader& reader, const std::string& path) const {
    const auto version = reader.read<std::uint8_t>("layout"), kind = reader.read<std::uint8_t>("layout");
    Hdf5Layout layout;
    INGOT_CHECK((version == 3 || version == 4) && (kind < 2 || version == 3),
                NotImplemented(fmt::format("{}: the layout of '{}' (version {}, class {})", file_, path,
                                           version, kind)));
    if (kind == 0) {
      layout.kind = Hdf5Layout::Kind::contiguous;
      layout.size = reader.read<std::uint16_t>("layout");
      layout.address = reader.at();
      reader.take(layout.size, "layout");
    } else if (kind == 1) {
      const auto address = reader.read<std::uint64_t>("layout");
      layout.size = reader.read<std::uint64_t>("layout");
      if (address == kUndefined) return {};  // nothing was ever written
      layout.kind = Hdf5Layout::Kind::contiguous;
      ByteReader data = at(address, path);
      layout.address = data.at();
      data.take(layout.size, path);
    } else {
      layout.kind = Hdf5Layout::Kind::chunked;
      const auto rank = reader.read<std::uint8_t>("layout");
      layout.address = reader.read<std::uint64_t>("layout");
      for (int i = 0; i < rank; ++i) layout.chunk_shape.push_back(reader.read<std::uint32_t>("layout"));
    }
    return layout;
  }

  static std::vector<Hdf5Filter> read_filters(ByteReader& reader) {
    const auto version = reader.read<std::uint8_t>("filters"), count = reader.read<std::uint8_t>("filters");
    if (count > 32) reader.fail("filters", fmt::format("are {}; HDF5 allows 32", count));
    if (version == 1) reader.take(6, "filters");
    std::vector<Hdf5Filter> filters;
    for (int i = 0; i < count; ++i) {
      Hdf5Filter filter;
      filter.id = reader.read<std::uint16_t>("filter");
      const bool named = version == 1 || filter.id >= 256;
      const std::uint16_t name = named ? reader.read<std::uint16_t>("filter") : std::uint16_t{0};
      reader.read<std::uint16_t>("filter");
      const auto values = reader.read<std::uint16_t>("filter");
      reader.take(name, "filter");
      reader.take(std::uint64_t{4} * (values + (version == 1 ? values % 2 : 0)), "filter");
      filters.push_back(filter);
    }
    return filters;
  }

  void read_attributes(std::uint64_t root) {
    for (const HeaderMessage& message : messages(root)) {
      if (message.type != kAttribute) continue;
      ByteReader reader = body(message);
      const auto version = reader.read<std::uint8_t>("attribute");
      reader.read<std::uint8_t>("attribute");
      const auto name = reader.read<std::uint16_t>("attribute"),
                 type = reader.read<std::uint16_t>("attribute"),
                 space = reader.read<std::uint16_t>("attribute");
      if (version == 3) reader.take(1, "attribute");
      const auto part = [&](std::uint16_t size) {
        const std::size_t at = reader.at();
        reader.take(version == 1 ? (size + 7U) / 8 * 8 : size, "attribute");
        return ByteReader(bytes_.first(at + size), file_, at);
      };
      std::string key(part(name).text(name, "attribute"));
      key.resize(key.find('\0') == key.npos ? key.size() : key.find('\0'));
      ByteReader type_reader = part(type), space_reader = part(space);
      const Hdf5Type text = read_type(type_reader);
      if (!read_dataspace(space_reader).empty()) continue;  // lists of names say nothing that paths do not
      if (text.kind == Hdf5Type::Kind::string)
        contents_.attributes[key] = reader.text(text.size, "attribute");
      if (text.kind == Hdf5Type::Kind::variable) contents_.attributes[key] = variable_text(reader);
    }
  }

  /// A text of any length stands in a global heap: its length, the heap's address and a number in there.
  std::string variable_text(ByteReader& reader) {
    const auto size = reader.read<std::uint32_t>("attribute");
    ByteReader heap = at(reader.read<std::uint64_t>("attribute"), "global heap");
    const auto wanted = reader.read<std::uint32_t>("attribute");
    if (heap.text(4, "global heap") != "GCOL") heap.fail("global heap", "is none");
    heap.take(12, "global heap");
    while (true) {
      if (++heap_objects_ > kMaxObjects) heap.fail("global heap", "is gone through too often");
      const auto index = heap.read<std::uint16_t>("global heap");
      heap.take(6, "global heap");
      const auto stored = heap.read<std::uint64_t>("global heap");
      if (index == 0) heap.fail("global heap", fmt::format("lacks object {}", wanted));
      const std::string_view text = heap.text(stored, "global heap");
      if (index == wanted) {
        charge_text(std::min<std::size_t>(text.size(), size), "attribute");
        return std::string(text.substr(0, size));
      }
      heap.take((8 - stored % 8) % 8, "global heap");
    }
  }

  std::span<const std::byte> bytes_;
  const std::string& file_;
  std::uint64_t base_ = 0;
  Hdf5Contents contents_;
  std::set<std::uint64_t> seen_;  // objects and tree nodes
  std::size_t objects_ = 0, entries_ = 0, heap_objects_ = 0;
  std::size_t texts_ = 0;              // bytes of names and attributes
  mutable std::uint64_t headers_ = 0;  // bytes of all that were read
};

/// Collects the leaves of a chunk index.
class ChunkReader {
 public:
  ChunkReader(std::span<const std::byte> bytes, const std::string& file, const Hdf5Dataset& dataset)
      : bytes_(bytes), file_(file), dataset_(dataset) {}

  std::vector<Hdf5Chunk> run() {
    std::uint64_t expected = 1;
    const auto& chunk = dataset_.layout.chunk_shape;
    ByteReader reader(bytes_, file_);
    if (chunk.size() != dataset_.shape.size() + 1) reader.fail(dataset_.path, "has chunks of another rank");
    for (std::size_t i = 0; i < dataset_.shape.size(); ++i) {
      if (chunk[i] == 0) reader.fail(dataset_.path, "has chunks of no size");
      const std::uint64_t along = (static_cast<std::uint64_t>(dataset_.shape[i]) + chunk[i] - 1) / chunk[i];
      if (__builtin_mul_overflow(expected, along, &expected))
        reader.fail(dataset_.path, "has too many chunks");
    }
    walk(dataset_.layout.address, kMaxGroupDepth);
    if (chunks_.size() != expected) {
      reader.fail(dataset_.path, fmt::format("has {} of its {} chunks; the others were never written",
                                             chunks_.size(), expected));
    }
    check_apart();
    return std::move(chunks_);
  }

 private:
  void check_apart() const {
    std::vector<std::pair<std::uint64_t, std::uint64_t>> places;  // begin, size
    places.reserve(chunks_.size());
    for (const Hdf5Chunk& chunk : chunks_) places.emplace_back(chunk.address, chunk.size);
    std::ranges::sort(places);
    for (std::size_t i = 1; i < places.size(); ++i) {
      if (places[i - 1].second > places[i].first - places[i - 1].first)
        ByteReader(bytes_, file_).fail_at(places[i].first, dataset_.path, "two of its chunks overlap");
    }
  }

  void walk(std::uint64_t address, int levels) {
    ByteReader reader(bytes_, file_);
    reader.seek(address, "chunk index");
    if (reader.text(4, "chunk index") != "TREE" || reader.read<std::uint8_t>("chunk index") != 1 ||
        levels == 0 || !nodes_.insert(address).second) {
      reader.fail("chunk index", "is not a tree of chunks");
    }
    const auto level = reader.read<std::uint8_t>("chunk index");
    const auto count = reader.read<std::uint16_t>("chunk index");
    reader.take(16, "chunk index");
    for (int i = 0; i < count; ++i) {
      Hdf5Chunk chunk;
      chunk.size = reader.read<std::uint32_t>("chunk");
      chunk.skipped_filters = reader.read<std::uint32_t>("chunk");
      for (std::size_t axis = 0; axis < dataset_.shape.size(); ++axis) {
        const auto offset = reader.read<std::uint64_t>("chunk");
        if (offset >= static_cast<std::uint64_t>(dataset_.shape[axis]))
          reader.fail("chunk", "lies outside its dataset");
        // As many as there must be, each at an offset of its own: then they leave no part out.
        if (offset % dataset_.layout.chunk_shape[axis] != 0)
          reader.fail("chunk", "does not begin where one of its dataset can");
        chunk.offset.push_back(offset);
      }
      reader.take(8, "chunk");
      chunk.address = reader.read<std::uint64_t>("chunk");
      if (level > 0) {
        walk(chunk.address, levels - 1);
        continue;
      }
      if (!seen_.insert(chunk.offset).second) reader.fail("chunk", "stands in the index twice");
      ByteReader data(bytes_, file_);
      data.seek(chunk.address, "chunk");
      data.take(chunk.size, "chunk");
      chunks_.push_back(std::move(chunk));
    }
  }

  std::span<const std::byte> bytes_;
  const std::string& file_;
  const Hdf5Dataset& dataset_;
  std::vector<Hdf5Chunk> chunks_;
  std::set<std::vector<std::uint64_t>> seen_;
  std::set<std::uint64_t> nodes_;
};

}  // namespace

std::optional<DType> Hdf5Type::dtype() const {
  if (kind == Kind::enumeration && size == 1) return DType::boolean;  // h5py's booleans
  if (kind == Kind::integer) {
    if (size == 1) return is_signed ? DType::i8 : DType::u8;
    if (!is_signed) return std::nullopt;
    if (size == 2) return DType::i16;
    if (size == 4) return DType::i32;
    if (size == 8) return DType::i64;
  }
  if (kind == Kind::floating) {
    if (size == 2 && exponent_bits == 5 && mantissa_bits == 10) return DType::f16;
    if (size == 2 && exponent_bits == 8 && mantissa_bits == 7) return DType::bf16;
    if (size == 4 && exponent_bits == 8) return DType::f32;
    if (size == 8 && exponent_bits == 11) return DType::f64;
  }
  return std::nullopt;
}

std::string Hdf5Type::name() const {
  switch (kind) {
    case Kind::integer:
      return fmt::format("{}int{}", is_signed ? "" : "u", 8 * size);
    case Kind::floating:
      return dtype() == DType::bf16 ? "bfloat16" : fmt::format("float{}", 8 * size);
    case Kind::string:
    case Kind::variable:
      return "string";
    case Kind::enumeration:
      return "enum";
    case Kind::other:
      break;
  }
  return "opaque";
}

Hdf5Contents read_hdf5(std::span<const std::byte> bytes, const std::string& file) {
  return Walker(bytes, file).run();
}

std::vector<Hdf5Chunk> read_hdf5_chunks(std::span<const std::byte> bytes, const std::string& file,
                                        const Hdf5Dataset& dataset) {
  return ChunkReader(bytes, file, dataset).run();
}

}  // namespace ingot
