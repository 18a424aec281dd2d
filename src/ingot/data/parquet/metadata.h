#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ingot/data/parquet/location.h"

// What a Parquet file says of itself. Numbers of enumerations are the format's own.
namespace ingot::data::parquet {

enum class Physical : std::uint8_t { boolean, int32, int64, int96, float32, float64, bytes, fixed };

/// What values stand for.
enum class Meaning : std::uint8_t {
  plain,    ///< what the physical type says
  text,     ///< UTF-8
  natural,  ///< an integer without a sign
  decimal,  ///< an integer that is to be divided by 10^scale
  date,     ///< days since 1970-01-01
  clock,    ///< ticks since midnight
  moment,   ///< ticks since 1970-01-01
  half,     ///< a float of 16 bits
  uuid,
  list,  ///< of a group
  map,   ///< of a group
};

struct Element {
  std::string name = {};
  std::optional<Physical> physical = {};  ///< nothing: a group
  std::int32_t length = 0;                ///< of Physical::fixed, in bytes
  bool optional = false, repeated = false;
  std::int32_t children = 0;
  Meaning meaning = Meaning::plain;
  std::int32_t scale = 0;  ///< of decimals
  std::int64_t ticks = 1;  ///< a second, of clocks and moments: 1000, 1000000, 1000000000
  bool utc = false;        ///< of moments: of UTC, and not of a clock nobody names
  std::int32_t bits = 64;  ///< of naturals
};

/// As Parquet numbers them; lz4 is without a frame, and lz4_frame Arrow's alone.
enum class Codec : std::uint8_t { none, snappy, gzip, lzo, brotli, lz4_hadoop, zstd, lz4, lz4_frame };

/// The part of a column that is in one row group.
struct Chunk {
  Physical physical = Physical::boolean;
  Codec codec = Codec::none;
  std::int64_t values = 0;  ///< nulls included
  std::int64_t offset = 0, size = 0;
};

struct RowGroup {
  std::int64_t rows = 0;
  std::vector<Chunk> chunks;  ///< one for each leaf of the schema, in its order
};

struct Metadata {
  std::vector<Element> schema;  ///< parents before their children; the first is the root
  std::vector<RowGroup> groups;
  std::int64_t rows = 0;  ///< of all groups
};

enum class PageType : std::uint8_t { data, index, dictionary, data_v2 };
enum class Encoding : std::uint8_t {
  plain = 0,
  plain_dictionary = 2,
  rle = 3,
  bit_packed = 4,
  delta_binary = 5,
  delta_length = 6,
  delta_bytes = 7,
  dictionary = 8,
  byte_stream_split = 9,
};

struct PageHeader {
  PageType type = PageType::data;
  std::int64_t unpacked_size = 0, packed_size = 0;
  std::int64_t values = 0;  ///< nulls included
  Encoding encoding = Encoding::plain;
  Encoding definition_levels = Encoding::rle, repetition_levels = Encoding::rle;
  std::int64_t definition_size = 0, repetition_size = 0;  ///< of data_v2, in bytes
  bool packed = true;                                     ///< of data_v2: its values
  std::size_t size = 0;                                   ///< of the header itself
};

/// Reads a file's footer and checks all that it says against the file's size.
Metadata read_metadata(std::string_view file, const Location& location);
/// Reads the header that `bytes` begin with.
PageHeader read_page_header(std::string_view bytes, const Location& location);

}  // namespace ingot::data::parquet
