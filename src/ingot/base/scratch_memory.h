#pragma once

#include <cstddef>
#include <string>

namespace ingot {

/// Zeroed memory that lies in a file without a name: the system may write pages out and take their memory
/// back, and the file goes with the object, however the process ends.
class ScratchMemory {
 public:
  /// Reserves the disk space, so that a full disk is found here and not at a later write. `directory` is
  /// there. IoError that names it where it takes no file, or is full.
  ScratchMemory(const std::string& directory, std::size_t bytes);
  ~ScratchMemory();
  ScratchMemory(const ScratchMemory&) = delete;
  ScratchMemory& operator=(const ScratchMemory&) = delete;

  void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  std::size_t bytes_;
};

}  // namespace ingot
