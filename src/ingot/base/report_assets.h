#pragma once

#include <string_view>

/// The parts of a report, put into the binary at build time (see ingot_embed in cmake/embed.cmake).
namespace ingot::report_assets {

std::string_view page();
std::string_view style();
std::string_view script();
std::string_view space();
std::string_view chart_js();

}  // namespace ingot::report_assets
