#include "ingot/weights/zip.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <zlib.h>

#include "ingot/base/error.h"
#include "ingot/weights/byte_reader.h"
#include "ingot/weights/deflate.h"

namespace ingot {
namespace {

constexpr std::uint32_t kLocalHeader = 0x04034b50, kDirectoryEntry = 0x02014b50, kDirectoryEnd = 0x06054b50,
                        kDirectoryEnd64 = 0x06064b50, kDirectoryEnd64Locator = 0x07064b50;
constexpr std::size_t kEndBytes = 22, kLocatorBytes = 20, kMaxComment = 65535, kEntryBytes = 46;
constexpr std::uint32_t kIn64 = 0xffffffff;

struct Directory {
  std::uint64_t count = 0, size = 0, offset = 0;
};

/// Where the end record stands: the last offset from which its comment reaches the end of the file.
std::size_t find_end(std::span<const std::byte> bytes, const std::string& file) {
  const ByteReader reader(bytes, file);
  if (bytes.size() < kEndBytes) reader.fail_at(0, "zip", "is too short for an archive; it was cut short");
  const std::size_t last = bytes.size() - kEndBytes;
  for (std::size_t back = 0; back <= std::min(last, kMaxComment); ++back) {
    ByteReader at(bytes, file, last - back);
    if (at.read<std::uint32_t>("end") == kDirectoryEnd) return last - back;
  }
  reader.fail_at(last, "zip", "has no end record: the archive was cut short");
}

Directory read_end(std::span<const std::byte> bytes, const std::string& file) {
  const std::size_t end = find_end(bytes, file);
  ByteReader reader(bytes, file, end + 4);
  const auto disk = reader.read<std::uint16_t>("disk");
  reader.read<std::uint16_t>("directory disk");
  Directory directory;
  reader.read<std::uint16_t>("entries of this disk");
  directory.count = reader.read<std::uint16_t>("entries");
  directory.size = reader.read<std::uint32_t>("directory size");
  directory.offset = reader.read<std::uint32_t>("directory offset");
  if (disk != 0 && disk != 0xffff) reader.fail_at(end, "disk", "the archive is one part of several");
  if (end < kLocatorBytes) return directory;
  ByteReader locator(bytes, file, end - kLocatorBytes);
  if (locator.read<std::uint32_t>("locator") != kDirectoryEnd64Locator) return directory;
  locator.read<std::uint32_t>("disk");
  locator.seek(locator.read<std::uint64_t>("zip64 end offset"), "zip64 end offset");
  if (locator.read<std::uint32_t>("zip64 end") != kDirectoryEnd64)
    locator.fail("zip64 end", "is not where it should be");
  locator.take(20, "zip64 end");  // size, versions, disks
  locator.read<std::uint64_t>("entries of this disk");
  directory.count = locator.read<std::uint64_t>("entries");
  directory.size = locator.read<std::uint64_t>("directory size");
  directory.offset = locator.read<std::uint64_t>("directory offset");
  return directory;
}

/// Sizes and offset that do not fit 32 bits stand in an extra field, in this order, those only.
void read_zip64(ByteReader extra, ZipEntry& entry, std::uint64_t& header) {
  while (extra.remaining() >= 4) {
    const auto id = extra.read<std::uint16_t>("extra field");
    const auto size = extra.read<std::uint16_t>("extra field");
    if (id != 1) {
      extra.take(size, "extra field");
      continue;
    }
    for (std::uint64_t* value : {&entry.size, &entry.stored, &header}) {
      if (*value == kIn64) *value = extra.read<std::uint64_t>("zip64 extra field");
    }
    return;
  }
}

void locate_data(std::span<const std::byte> bytes, const std::string& file, std::uint64_t header,
                 ZipEntry& entry) {
  ByteReader local(bytes, file);
  local.seek(header, entry.name);
  if (local.read<std::uint32_t>(entry.name) != kLocalHeader) {
    local.fail_at(static_cast<std::size_t>(header), entry.name, "has no local header there");
  }
  local.take(22, entry.name);
  const auto name = local.read<std::uint16_t>(entry.name), extra = local.read<std::uint16_t>(entry.name);
  local.take(name, entry.name);
  local.take(extra, entry.name);
  entry.offset = local.at();
  if (entry.stored > local.remaining()) {
    local.fail(entry.name, fmt::format("takes {} bytes, but only {} follow; the file was cut short",
                                       entry.stored, local.remaining()));
  }
  if (entry.method == 0 && entry.size != entry.stored) {
    local.fail(entry.name,
               fmt::format("is stored as it is, but has two sizes: {} and {}", entry.size, entry.stored));
  }
  if (entry.method == 8 && entry.size / kMaxDeflateRatio > entry.stored) {
    local.fail(entry.name,
               fmt::format("claims to become {} bytes from {}, which cannot be", entry.size, entry.stored));
  }
}

ZipEntry read_entry(ByteReader& reader, std::span<const std::byte> bytes) {
  const std::size_t at = reader.at();
  if (reader.read<std::uint32_t>("directory") != kDirectoryEntry) {
    reader.fail_at(at, "directory", "has no entry where one is announced");
  }
  reader.take(4, "directory");
  const auto flags = reader.read<std::uint16_t>("flags");
  ZipEntry entry;
  entry.method = reader.read<std::uint16_t>("method");
  reader.take(4, "directory");
  entry.crc = reader.read<std::uint32_t>("crc");
  entry.stored = reader.read<std::uint32_t>("size");
  entry.size = reader.read<std::uint32_t>("size");
  const auto name = reader.read<std::uint16_t>("name"), extra = reader.read<std::uint16_t>("extra field"),
             comment = reader.read<std::uint16_t>("comment");
  reader.take(8, "directory");
  std::uint64_t header = reader.read<std::uint32_t>("offset");
  entry.name = reader.text(name, "name");
  if ((flags & 1) != 0) reader.fail_at(at, entry.name, "is encrypted");
  read_zip64(ByteReader(reader.take(extra, entry.name), reader.file()), entry, header);
  reader.take(comment, entry.name);
  locate_data(bytes, reader.file(), header, entry);
  return entry;
}

void check_apart(const std::vector<ZipEntry>& entries, const std::string& file) {
  std::vector<const ZipEntry*> order;
  order.reserve(entries.size());
  for (const ZipEntry& entry : entries) order.push_back(&entry);
  std::ranges::sort(order, {}, &ZipEntry::offset);
  for (std::size_t i = 1; i < order.size(); ++i) {
    INGOT_CHECK(order[i - 1]->offset + order[i - 1]->stored <= order[i]->offset,
                FormatError(file, static_cast<std::int64_t>(order[i]->offset), order[i]->name,
                            fmt::format("lies inside '{}': they overlap", order[i - 1]->name)));
  }
}

std::uint32_t crc_of(std::span<const std::byte> bytes) {
  return static_cast<std::uint32_t>(
      crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<z_size_t>(bytes.size())));
}

/// The first `size` bytes of what an entry becomes.
std::vector<std::byte> inflated(std::span<const std::byte> from, std::size_t size, const ZipEntry& entry,
                                const std::string& file) {
  std::vector<std::byte> to(size);
  z_stream stream{};
  INGOT_CHECK(inflateInit2(&stream, -MAX_WBITS) == Z_OK, Error("zlib could not start"));
  int status = Z_OK;
  std::size_t in = 0, out = 0;
  constexpr std::size_t kStep = std::size_t{1} << 30;  // zlib counts in 32 bits
  while (status == Z_OK) {
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(from.data() + in));
    stream.avail_in = static_cast<uInt>(std::min(kStep, from.size() - in));
    stream.next_out = reinterpret_cast<Bytef*>(to.data() + out);
    stream.avail_out = static_cast<uInt>(std::min(kStep, to.size() - out));
    const uInt given_in = stream.avail_in, given_out = stream.avail_out;
    status = inflate(&stream, Z_NO_FLUSH);
    in += given_in - stream.avail_in;
    out += given_out - stream.avail_out;
    if (given_in == stream.avail_in && given_out == stream.avail_out) break;  // no more to be had
  }
  inflateEnd(&stream);
  const bool whole = size < entry.size || status == Z_STREAM_END;
  INGOT_CHECK(whole && out == to.size(),
              FormatError(file, static_cast<std::int64_t>(entry.offset + in), entry.name,
                          fmt::format("does not inflate to its {} bytes; it is damaged", entry.size)));
  return to;
}

void check_crc(std::span<const std::byte> bytes, const ZipEntry& entry, const std::string& file) {
  INGOT_CHECK(crc_of(bytes) == entry.crc,
              FormatError(file, static_cast<std::int64_t>(entry.offset), entry.name,
                          "its bytes do not have the CRC that the archive says"));
}

}  // namespace

ZipArchive::ZipArchive(Blob blob) : blob_(std::move(blob)) {
  const Directory directory = read_end(blob_.bytes, blob_.name);
  ByteReader reader(blob_.bytes, blob_.name);
  reader.seek(directory.offset, "directory offset");
  reader.require_items(directory.count, kEntryBytes, "entries");
  entries_.reserve(static_cast<std::size_t>(directory.count));
  for (std::uint64_t i = 0; i < directory.count; ++i) entries_.push_back(read_entry(reader, blob_.bytes));
  check_apart(entries_, blob_.name);
  std::ranges::sort(entries_, {}, &ZipEntry::name);
  const auto twice = std::ranges::adjacent_find(entries_, {}, &ZipEntry::name);
  INGOT_CHECK(twice == entries_.end(),
              FormatError(blob_.name, -1, twice->name, "two entries have this name"));
}

bool ZipArchive::matches(std::span<const std::byte> start) {
  static constexpr std::string_view kStart = "PK\x03\x04", kEmpty = "PK\x05\x06";
  const std::string_view text(reinterpret_cast<const char*>(start.data()),
                              std::min<std::size_t>(start.size(), 4));
  return text == kStart || text == kEmpty;
}

const ZipEntry* ZipArchive::find(std::string_view name) const {
  const auto found = std::ranges::lower_bound(entries_, name, {}, &ZipEntry::name);
  return found != entries_.end() && found->name == name ? &*found : nullptr;
}

Blob ZipArchive::stored(const ZipEntry& entry) const {
  INGOT_CHECK(
      entry.method == 0 || entry.method == 8,
      NotImplemented(fmt::format("{}: {}: compression method {}", blob_.name, entry.name, entry.method)));
  return part_of(blob_, static_cast<std::size_t>(entry.offset), static_cast<std::size_t>(entry.stored));
}

Blob ZipArchive::prefix(const ZipEntry& entry, std::size_t size) const {
  size = std::min<std::size_t>(size, static_cast<std::size_t>(entry.size));
  const Blob stored = this->stored(entry);
  if (entry.method == 0) return part_of(stored, 0, size);
  return memory_blob(blob_.name, inflated(stored.bytes, size, entry, blob_.name));
}

Blob ZipArchive::content(const ZipEntry& entry) const {
  Blob stored = this->stored(entry);
  const PageLoan loan(stored);
  if (entry.method == 0) {
    const std::lock_guard lock(checked_->mutex);
    if (!checked_->entries.contains(&entry)) check_crc(stored.bytes, entry, blob_.name);
    checked_->entries.insert(&entry);
    return stored;
  }
  std::vector<std::byte> bytes =
      inflated(stored.bytes, static_cast<std::size_t>(entry.size), entry, blob_.name);
  check_crc(bytes, entry, blob_.name);
  return memory_blob(blob_.name, std::move(bytes));
}

namespace {

constexpr std::uint16_t kVersion64 = 45;
constexpr std::uint16_t kCrcBehind = 8;  // the flag of entries whose CRC follows their data
constexpr std::uint32_t kDescriptor = 0x08074b50;
constexpr std::size_t kLocalHeaderBytes = 30;
constexpr std::uint16_t kPaddingField = 0x4246;  // "FB", torch.save's
// Fixed, so that the same tensors give the same bytes: 1 January 1980.
constexpr std::uint32_t kDosTime = 0x00210000;

class Fields {
 public:
  Fields& u16(std::uint64_t value) { return number(value, 2); }
  Fields& u32(std::uint64_t value) { return number(value, 4); }
  Fields& u64(std::uint64_t value) { return number(value, 8); }
  Fields& text(std::string_view value) {
    bytes_ += value;
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  Fields& number(std::uint64_t value, int size) {
    for (int i = 0; i < size; ++i) bytes_ += static_cast<char>(value >> (8 * i) & 0xff);
    return *this;
  }
  std::string bytes_;
};

}  // namespace

void ZipWriter::add(const std::string& name, std::uint64_t size, FunctionRef<void(Sink)> write,
                    std::size_t alignment) {
  ZipEntry entry{name, size, size, out_.size(), 0, 0};
  std::string extra = Fields().u16(1).u16(16).u64(size).u64(size).bytes();
  if (alignment > 1) {  // a field of zeros, as torch.save has it
    const std::uint64_t begin = out_.size() + kLocalHeaderBytes + name.size() + extra.size() + 4;
    const std::size_t padding = (alignment - begin % alignment) % alignment;
    extra += Fields().u16(kPaddingField).u16(padding).text(std::string(padding, '\0')).bytes();
  }
  out_.write(Fields()
                 .u32(kLocalHeader)
                 .u16(kVersion64)
                 .u16(kCrcBehind)
                 .u16(0)
                 .u32(kDosTime)
                 .u32(0)
                 .u32(kIn64)
                 .u32(kIn64)
                 .u16(name.size())
                 .u16(extra.size())
                 .text(name)
                 .text(extra)
                 .bytes());
  std::uint64_t counted = 0;
  uLong crc = 0;
  write([&](std::span<const std::byte> bytes) {
    crc = crc32_z(crc, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<z_size_t>(bytes.size()));
    counted += bytes.size();
    out_.write(bytes);
  });
  INGOT_CHECK(counted == size,
              Error(fmt::format("'{}' was announced with {} bytes, but has {}", name, size, counted)));
  entry.crc = static_cast<std::uint32_t>(crc);
  out_.write(Fields().u32(kDescriptor).u32(entry.crc).u64(size).u64(size).bytes());
  entries_.push_back(std::move(entry));  // its offset is that of the local header here
}

void ZipWriter::finish() {
  const std::uint64_t begin = out_.size();
  for (const ZipEntry& entry : entries_) {
    const std::string extra =
        Fields().u16(1).u16(24).u64(entry.size).u64(entry.size).u64(entry.offset).bytes();
    out_.write(Fields()
                   .u32(kDirectoryEntry)
                   .u16(kVersion64)
                   .u16(kVersion64)
                   .u16(kCrcBehind)
                   .u16(0)
                   .u32(kDosTime)
                   .u32(entry.crc)
                   .u32(kIn64)
                   .u32(kIn64)
                   .u16(entry.name.size())
                   .u16(extra.size())
                   .u16(0)
                   .u16(0)
                   .u16(0)
                   .u32(0)
                   .u32(kIn64)
                   .text(entry.name)
                   .text(extra)
                   .bytes());
  }
  const std::uint64_t size = out_.size() - begin, end64 = out_.size();
  const std::uint64_t count = entries_.size();
  out_.write(Fields()
                 .u32(kDirectoryEnd64)
                 .u64(44)
                 .u16(kVersion64)
                 .u16(kVersion64)
                 .u32(0)
                 .u32(0)
                 .u64(count)
                 .u64(count)
                 .u64(size)
                 .u64(begin)
                 .u32(kDirectoryEnd64Locator)
                 .u32(0)
                 .u64(end64)
                 .u32(1)
                 .u32(kDirectoryEnd)
                 .u16(0)
                 .u16(0)
                 .u16(std::min<std::uint64_t>(count, 0xffff))
                 .u16(std::min<std::uint64_t>(count, 0xffff))
                 .u32(std::min<std::uint64_t>(size, kIn64))
                 .u32(std::min<std::uint64_t>(begin, kIn64))
                 .u16(0)
                 .bytes());
}

}  // namespace ingot
