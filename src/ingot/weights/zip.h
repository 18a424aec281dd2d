#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ingot/base/files.h"
#include "ingot/base/parallel.h"
#include "ingot/weights/blob.h"

// The format: https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT

namespace ingot {

/// One file of an archive.
struct ZipEntry {
  std::string name;
  std::uint64_t size = 0;    ///< uncompressed
  std::uint64_t stored = 0;  ///< as it lies in the archive
  std::uint64_t offset = 0;  ///< of its first byte, from the archive's start
  std::uint32_t crc = 0;
  std::uint16_t method = 0;  ///< 0: stored, 8: deflated
};

/// A zip archive (zip64 too), read from its central directory. Opening checks every size and offset: entries
/// must lie inside the file and not overlap. FormatError names file, offset and entry otherwise.
class ZipArchive {
 public:
  explicit ZipArchive(Blob blob);
  static bool matches(std::span<const std::byte> start);

  const std::string& location() const { return blob_.name; }
  std::span<const ZipEntry> entries() const { return entries_; }
  /// Null where there is none of this name.
  const ZipEntry* find(std::string_view name) const;
  /// The content: a part of the archive's own bytes where it is stored as it is, else inflated into memory of
  /// its own. NotImplemented for another method; FormatError where it does not have the CRC that the
  /// directory says, which is checked once for each entry.
  Blob content(const ZipEntry& entry) const;
  /// The first bytes of the content, at most `size`; of a compressed entry no more than those are made.
  Blob prefix(const ZipEntry& entry, std::size_t size) const;

 private:
  /// Entries whose CRC was found to be right; threads share it.
  struct Checked {
    std::mutex mutex;
    std::set<const ZipEntry*> entries;
  };
  Blob stored(const ZipEntry& entry) const;

  Blob blob_;
  std::vector<ZipEntry> entries_;
  std::unique_ptr<Checked> checked_ = std::make_unique<Checked>();
};

/// Writes an archive of stored files (zip64 where need be), one after another.
class ZipWriter {
 public:
  explicit ZipWriter(FileWriter& out) : out_(out) {}
  using Sink = FunctionRef<void(std::span<const std::byte>)>;
  /// `write` must give `size` bytes, which begin at a multiple of `alignment` (to 32 KiB).
  void add(const std::string& name, std::uint64_t size, FunctionRef<void(Sink)> write,
           std::size_t alignment = 1);
  /// Writes the directory; nothing may be added afterwards.
  void finish();

 private:
  FileWriter& out_;
  std::vector<ZipEntry> entries_;
};

}  // namespace ingot
