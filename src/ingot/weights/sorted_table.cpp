#include "ingot/weights/sorted_table.h"

#include <set>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/base/hash.h"
#include "ingot/weights/byte_reader.h"

namespace ingot {
namespace {

constexpr std::size_t kFooterBytes = 48;

std::uint64_t read_varint(ByteReader& reader, std::string_view field) {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    const auto byte = reader.read<std::uint8_t>(field);
    value |= std::uint64_t{byte & 0x7fU} << shift;
    if (byte < 0x80) return value;
  }
  reader.fail(field, "is a number of more than ten bytes");
}

/// Where a block lies.
struct Handle {
  std::uint64_t offset = 0, size = 0;
};
Handle read_handle(ByteReader& reader) {
  Handle handle;
  handle.offset = read_varint(reader, "block handle");
  handle.size = read_varint(reader, "block handle");
  return handle;
}

class TableReader {
 public:
  TableReader(std::span<const std::byte> bytes, const std::string& file) : bytes_(bytes), file_(file) {}

  std::vector<std::pair<std::string, std::string_view>> run() {
    ByteReader reader(bytes_, file_);
    if (bytes_.size() < kFooterBytes) reader.fail("footer", "the file was cut short");
    reader.seek(bytes_.size() - 8, "footer");
    if (reader.read<std::uint64_t>("footer") != kSortedTableMagic) {
      reader.fail("footer", "does not end as a table does; the file was cut short, or is something else");
    }
    reader.seek(bytes_.size() - kFooterBytes, "footer");
    read_handle(reader);  // of an index of filters, which such files do not have
    std::vector<std::pair<std::string, std::string_view>> blocks, pairs;
    read_block(read_handle(reader), blocks);
    std::set<std::uint64_t> seen;
    for (const auto& [last_key, place] : blocks) {
      ByteReader handle(std::as_bytes(std::span(place)), file_);
      const Handle block = read_handle(handle);
      if (!seen.insert(block.offset).second) reader.fail("index block", "names a block twice");
      read_block(block, pairs);
    }
    return pairs;
  }

 private:
  /// Keys share their beginning with the one before; the list of offsets where they do not is not needed.
  void read_block(const Handle& handle, std::vector<std::pair<std::string, std::string_view>>& pairs) const {
    ByteReader whole(bytes_, file_);
    whole.seek(handle.offset, "block");
    const std::span<const std::byte> content = whole.take(handle.size, "block");
    const auto kind = whole.read<std::uint8_t>("block");
    const auto crc = whole.read<std::uint32_t>("block");
    const std::string_view checked(reinterpret_cast<const char*>(content.data()), content.size() + 1);
    if (crc != masked_crc32c(checked))
      whole.fail("block", "does not have the CRC that follows it; it is damaged");
    INGOT_CHECK(kind == 0, NotImplemented(fmt::format("{}: compression {} of a table's block", file_, kind)));
    if (content.size() < 4) whole.fail("block", "is too short");
    ByteReader tail(bytes_.first(handle.offset + handle.size), file_, handle.offset + handle.size - 4);
    const std::uint64_t restarts = std::uint64_t{4} * tail.read<std::uint32_t>("restarts") + 4;
    if (restarts > content.size()) whole.fail("block", "has more restarts than bytes");
    ByteReader reader(bytes_.first(handle.offset + handle.size - restarts), file_, handle.offset);
    std::string key;
    while (reader.remaining() > 0) {
      const std::uint64_t shared = read_varint(reader, "key"), rest = read_varint(reader, "key"),
                          value = read_varint(reader, "value");
      if (shared > key.size()) reader.fail("key", "shares more with the one before than that has");
      key.resize(shared);
      key += reader.text(rest, "key");
      if (key.size() > 65536) reader.fail("key", "has more than 65536 bytes");
      pairs.emplace_back(key, reader.text(value, "value"));
      total_ += key.size();
      if (total_ > 64 * bytes_.size() + 65536) reader.fail("key", "the keys take more room than they can");
    }
  }

  std::span<const std::byte> bytes_;
  const std::string& file_;
  mutable std::size_t total_ = 0;  // of keys: shared beginnings may not become a bomb
};

}  // namespace

std::vector<std::pair<std::string, std::string_view>> read_sorted_table(std::span<const std::byte> bytes,
                                                                        const std::string& file) {
  return TableReader(bytes, file).run();
}

}  // namespace ingot
