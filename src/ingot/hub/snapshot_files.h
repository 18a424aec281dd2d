#pragma once

#include <optional>
#include <string>
#include <vector>

namespace ingot::hub {

/// A file that a snapshot's directory should hold and does not: one of `listed`, one whose blob is gone, a
/// shard that an index names, a part of a split GGUF file. Nothing where nothing tells of more files.
std::optional<std::string> missing_file(const std::string& snapshot, const std::vector<std::string>& listed);

}  // namespace ingot::hub
