#pragma once

#include "ingot/base/report.h"

namespace ingot::cli {

/// A table for the terminal: columns as wide as their widest cell, lines that end at the terminal's edge, an
/// empty line behind it.
void print_text_table(const ReportTable& table);

}  // namespace ingot::cli
