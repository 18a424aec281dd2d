#pragma once

#include <string>
#include <string_view>

#include "ingot/base/report.h"

namespace ingot::cli {

/// A table for the terminal: columns as wide as their widest cell, lines that end at the terminal's edge, an
/// empty line behind it.
void print_text_table(const ReportTable& table);

/// Lines of a table, cut at the edge of the terminal that stdout is; elsewhere as they are.
std::string cut_on_terminal(std::string_view lines);

}  // namespace ingot::cli
