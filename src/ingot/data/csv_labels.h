#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ingot::data {

/// Empties the lines of a CSV file that are not part of its table, so that the others keep their numbers, and
/// says which: "line 1 ('Sales, monthly')".
///
/// Comments ("# ...", not as wide as the table; above the rows one that is as wide is the header). Titles
/// above the header: lines that have not as many cells as those from the header to the end, or one cell and
/// separators; where the line below them is made of names. Below the last row: lines with fewer cells that
/// begin with a word for a total, a source or a note, with a mark, or stand behind an empty line. Whatever
/// else does not fit is left where it is, for the reader to refuse.
std::vector<std::string> blank_label_lines(std::string& text);

/// Whether a cell begins with a word for the total of the rows above: "Total", "Grand total", "Summe".
bool names_total(std::string_view cell);

}  // namespace ingot::data
