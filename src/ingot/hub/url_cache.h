#pragma once

#include <memory>
#include <string>

#include "ingot/hub/http.h"

namespace ingot::hub {

/// The file at `request`, kept below `directory`: fetched when it is not there, or when the server's tag or
/// size differ from what was noted then (`<file>.source.json`). A server that cannot be reached is no
/// obstacle where the file is there. Returns its path.
std::string fetch_cached(HttpClient& client, const HttpRequest& request, const std::string& directory,
                         const std::string& file);

}  // namespace ingot::hub
