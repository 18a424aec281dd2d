#pragma once

#include <cstdint>
#include <string_view>

namespace ingot::data {

enum class ContentKind : std::uint8_t {
  text,  ///< bytes that may be text; whether they are valid UTF-8 is not checked
  gzip,
  zstd,
  utf16,  ///< with a byte order mark
  utf32,
  parquet,
  binary,  ///< a format of its own, which `name` says
  zeros,   ///< not text as it stands, for its bytes of zero
};

struct Content {
  ContentKind kind = ContentKind::text;
  std::string_view name = {};  ///< of what is not text: "a Parquet file", "a PNG image"

  /// Whether it is Arrow's, as `datasets` keeps what it has read.
  bool arrow() const;
};

/// What a file is by its first bytes, whatever its name says. `head`: the first 8 KiB or so.
Content content_of(std::string_view head);
bool is_parquet(std::string_view file);

}  // namespace ingot::data
