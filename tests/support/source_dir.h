#pragma once

#include <string>

namespace ingot::test {

/// The repository's root, where goldens and documents lie. A function, so that only one object holds the path
/// and ccache can share all others between checkouts.
std::string source_dir();

}  // namespace ingot::test
