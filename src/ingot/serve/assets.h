#pragma once

#include <string_view>

/// What is put into the binary at build time (ingot_embed).
namespace ingot::serve_assets {

/// The OpenAPI document that GET /openapi.json gives.
std::string_view openapi();

}  // namespace ingot::serve_assets
