#pragma once

#include <string>
#include <string_view>

#include "ingot/base/files.h"
#include "ingot/data/content_kind.h"

namespace ingot::data {

/// A file of text as UTF-8, without a byte order mark: as it lies on disk, or unpacked (gzip, zstd) and
/// decoded (UTF-16 and UTF-32 with a byte order mark, or the encoding that is named).
class TextFile {
 public:
  /// IoError where the file cannot be read; FormatError where it is not text (a Parquet file, an archive, an
  /// image ...), is damaged, unpacks to an absurd size, or holds bytes that are not of `encoding`.
  /// InvalidConfig where no such encoding is known. `encoding`: a name that iconv knows, as latin1, cp1252,
  /// shift_jis, utf-16le; empty: UTF-8, which is not checked.
  explicit TextFile(const std::string& path, const std::string& encoding = {});

  std::string_view text() const { return text_; }

 private:
  MappedFile file_;
  std::string owned_;
  std::string_view text_;
};

/// A whole file of text, as TextFile reads it.
std::string read_text_file(const std::string& path, const std::string& encoding = {});

/// FormatError where content is not text in an encoding that TextFile reads, as it says.
void check_is_text(const std::string& path, const Content& content, const std::string& encoding);

/// The first `size` bytes of a file's content, unpacked where it is gzip or zstd: what content_of needs.
/// Empty where it is damaged.
std::string head_of(std::string_view file, std::size_t size = 8192);

/// Where text is not well-formed UTF-8 (RFC 3629), from byte `from` on; npos: nowhere.
std::size_t find_invalid_utf8(std::string_view text, std::size_t from = 0);

/// Whether files of this name are those of text that is packed: "a.txt.gz" is "a.txt".
std::string_view without_packed_ending(std::string_view path);

}  // namespace ingot::data
