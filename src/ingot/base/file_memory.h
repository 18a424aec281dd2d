#pragma once

#include <cstddef>

namespace ingot {

/// Whether all of this memory is that of a mapped file, so that the system may take it back and read it
/// again.
bool is_file_memory(const void* data, std::size_t bytes);
/// Tells the system that the memory is read soon, so that it reads the file ahead. A hint: it never fails.
void read_ahead(const void* data, std::size_t bytes);
/// Tells the system that the memory is not needed for a while: where it has to take some, it takes this
/// first.
void let_go(const void* data, std::size_t bytes);

}  // namespace ingot
