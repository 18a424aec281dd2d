#pragma once

#include <string>
#include <vector>

#include "ingot/base/config_table.h"

namespace ingot::cli {

/// Prints the keys of a configuration, section by section: name, other names, default, what it may be, what
/// it means. With `word` only those that have it in their names or their text; none is an error that suggests
/// some.
int print_config_keys(const std::vector<ConfigSection>& sections, const std::string& word, bool json);

}  // namespace ingot::cli
