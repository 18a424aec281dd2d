#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ingot/data/records.h"

namespace ingot::data {

/// Gives the rows of an Arrow file or stream (.arrow, and Feather), as `datasets`, pyarrow and polars write
/// it, as records: structs are objects, lists arrays, maps objects. One batch is unpacked at a time.
/// FormatError names file and column of what is damaged or is not read: unions, views, run-end encoding, LZ4.
void for_each_arrow_row(const std::string& path, std::string_view file, TakeRecord take);

/// Whether `datasets` wrote the directory, by save_to_disk.
bool is_saved_dataset(const std::string& directory);
/// Its Arrow files in their order, of one split ("train" where it is empty) where it has several.
/// InvalidConfig that lists the splits; FormatError for a description that cannot be read.
std::vector<std::string> saved_dataset_files(const std::string& directory, const std::string& split);

}  // namespace ingot::data
