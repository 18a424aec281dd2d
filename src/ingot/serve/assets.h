#pragma once

#include <string_view>

/// What is put into the binary at build time (ingot_embed).
namespace ingot::serve_assets {

/// The OpenAPI document that GET /openapi.json gives.
std::string_view openapi();

}  // namespace ingot::serve_assets

/// The files of the web page.
namespace ingot::web_page_assets {

std::string_view page();
std::string_view style();
std::string_view chat();
std::string_view message();
std::string_view markdown();
std::string_view highlight();
std::string_view dom();
std::string_view store();
std::string_view api();
std::string_view load();
std::string_view timeline();

}  // namespace ingot::web_page_assets
