#pragma once

#include <string>
#include <vector>

namespace ingot::cli {

/// Prints what `ingot train` makes of a configuration, without training. Returns 1 where it would be refused.
int explain_config(const std::string& path, const std::vector<std::string>& set, bool json);

}  // namespace ingot::cli
