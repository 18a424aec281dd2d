#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ingot {

/// The pairs of a table file as LevelDB and TensorFlow write them
/// (https://github.com/google/leveldb/blob/main/doc/table_format.md), in order. Every block's CRC is checked.
/// FormatError names file and offset; NotImplemented a compressed block. Values are parts of `bytes`.
std::vector<std::pair<std::string, std::string_view>> read_sorted_table(std::span<const std::byte> bytes,
                                                                        const std::string& file);

/// The last eight bytes of such a file.
inline constexpr std::uint64_t kSortedTableMagic = 0xdb4775248b80fb57;

}  // namespace ingot
