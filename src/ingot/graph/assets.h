#pragma once

#include <string_view>

/// The parts of a graph's page, put into the binary at build time (see ingot_embed in cmake/embed.cmake).
namespace ingot::graph_assets {

std::string_view page();
std::string_view style();
std::string_view script();

}  // namespace ingot::graph_assets
