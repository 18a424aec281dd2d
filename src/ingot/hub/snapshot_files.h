#pragma once

#include <optional>
#include <string>
#include <vector>

namespace ingot::hub {

/// A file that a snapshot's directory should hold and does not: one of `listed`; one beside the weights whose
/// blob is gone; of the kind of weights that is opened a shard that an index names, or a part of a split GGUF
/// file. Nothing where nothing tells of more files: a snapshot may be without weights.
std::optional<std::string> missing_file(const std::string& snapshot, const std::vector<std::string>& listed);

}  // namespace ingot::hub
