#pragma once

#include <string>

namespace ingot::infer {

/// What tells a file from another one: name, size, time and a hash of its header and of blocks spread over
/// the rest. A path that cannot be looked at is itself.
std::string file_identity(const std::string& path);
/// The same of the files in a directory, but for the tiles that are kept there; of a file, its own.
std::string model_identity(const std::string& path);
/// A hash of names, sizes and samples of a model's files: the same of a copy.
std::string model_digest(const std::string& path);

}  // namespace ingot::infer
