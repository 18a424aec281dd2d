#pragma once

#include <optional>
#include <string>

#include "ingot/train/run_metadata.h"

namespace ingot {

/// run.json in a directory; nothing is written where the record is empty. IoError.
void write_metadata(const RunMetadata& metadata, const std::string& directory);
/// Nothing where the directory has none. IoError, and FormatError as RunMetadata::from_json's.
std::optional<RunMetadata> read_metadata(const std::string& directory);
/// The same of a model, which works without its record: empty where there is none, or a damaged one.
RunMetadata readable_metadata(const std::string& directory);

}  // namespace ingot
