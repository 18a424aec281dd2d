#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ingot/data/csv.h"

namespace ingot::forecast {

using data::CsvTable;

/// Rows of a table that are not rows of values, by their cell in the column `time`, and says which in
/// `not_read`: units or a second line of names under the header ("", "EUR"), the header again, where files
/// were put together, and at the end a total ("Total", "1,234") or a note. Nothing where there are none.
/// Whatever else is not a date is left, for the reader to refuse.
std::optional<CsvTable> without_label_rows(const CsvTable& csv, std::size_t time,
                                           std::vector<std::string>& not_read);

}  // namespace ingot::forecast
