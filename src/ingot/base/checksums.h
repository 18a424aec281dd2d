#pragma once

#include <string>

namespace ingot {

// Directories that can be told whole from damaged: SHA256SUMS lists every file (`sha256sum -c` checks it).

inline constexpr const char* kChecksumsFile = "SHA256SUMS";

/// Writes SHA256SUMS over the files of `directory`.
void write_checksums(const std::string& directory);

/// Throws FormatError naming the first file that is missing, short or changed, or SHA256SUMS itself; IoError
/// where there is no such directory.
void verify_checksums(const std::string& directory);

/// Deletes such a directory. The sums go first: a deletion that is cut short leaves nothing that verifies.
void remove_with_checksums(const std::string& directory);

}  // namespace ingot
