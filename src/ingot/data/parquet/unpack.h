#pragma once

#include <string>
#include <string_view>

#include "ingot/data/parquet/metadata.h"

namespace ingot::data::parquet {

/// Unpacks a page into `size` bytes, which the caller has found bearable. FormatError of `location` where it
/// is damaged or has another size, or where its codec is not read here.
std::string unpack(std::string_view packed, std::size_t size, Codec codec, const Location& location);

/// Blocks of Snappy and LZ4, which has no frame: whether they are `out.size()` bytes, all written to `out`.
bool unpack_snappy(std::string_view packed, std::string& out);
bool unpack_lz4(std::string_view packed, std::string& out);
/// One frame of LZ4 likewise. Its checksums and its size are passed over.
bool unpack_lz4_frame(std::string_view packed, std::string& out);

}  // namespace ingot::data::parquet
