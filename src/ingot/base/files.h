#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ingot/base/parallel.h"

namespace ingot {

/// A whole file. IoError where it cannot be read.
std::string read_file(const std::string& path);

/// A file's content in memory without reading it first: pages come from disk as they are touched. Read only,
/// but for copy_on_write: there a write stays in this process' memory and never reaches the file.
/// A file that another process cuts short while it is mapped is not guarded against.
class MappedFile {
 public:
  enum class Access { normal, sequential, random, copy_on_write };

  MappedFile() = default;
  explicit MappedFile(std::string path, Access access = Access::normal);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  const std::string& path() const { return path_; }
  std::span<const std::byte> bytes() const { return {data_, size_}; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }
  /// With copy_on_write only.
  std::span<std::byte> writable_bytes() const;

  /// Asks the kernel to read a range ahead, or says that it will not be needed soon. Only a hint.
  void will_need(std::size_t offset, std::size_t size) const;
  void will_not_need(std::size_t offset, std::size_t size) const;

 private:
  void advise(std::size_t offset, std::size_t size, int advice) const;
  std::string path_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  bool writable_ = false;
};

/// Writes a new file (or over an old one), buffered. Every failure is an IoError that names the file; a full
/// disk also says how much is free. Not atomic by itself: see write_file_atomically and AtomicDirectory.
class FileWriter {
 public:
  enum class Mode { truncate, append };

  explicit FileWriter(std::string path, Mode mode = Mode::truncate);
  ~FileWriter();  // closes, and drops what was not yet written out: close() is what succeeds or throws
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  /// To the operating system: survives a crash of the process.
  void flush();
  /// To the disk: survives a loss of power.
  void sync();
  void close();

  const std::string& path() const { return path_; }
  /// Bytes given to write() so far (those of an earlier writer in append mode not counted).
  std::uint64_t size() const { return size_; }

 private:
  void write_out(const std::byte* data, std::size_t size);
  std::string path_;
  int fd_ = -1;
  std::uint64_t size_ = 0;
  std::vector<std::byte> buffer_;
};

/// Replaces a file so that a reader, or a crash at any moment, sees the old content or the new, never a part.
/// A link stays one, and what it leads to is replaced; a device or a pipe is written to.
void write_file_atomically(const std::string& path, std::string_view content);
/// The same for content that is made piece by piece; what `write` throws leaves the old file as it was.
void write_file_atomically(const std::string& path, FunctionRef<void(FileWriter&)> write);

/// A directory that appears whole or not at all. Write files below path(), then commit(): everything is
/// synced to disk and renamed to its final name, instead of one that is there already. Destroyed without
/// commit, it leaves nothing. After a crash what is left is `<name>.partial-<random>`, which sweep_partial
/// removes. Only a model's, a checkpoint's or a fit's directory is replaced: IoError at once where there is a
/// file, or a directory that holds anything else, which would be lost.
class AtomicDirectory {
 public:
  explicit AtomicDirectory(std::string final_path);
  ~AtomicDirectory();
  AtomicDirectory(const AtomicDirectory&) = delete;
  AtomicDirectory& operator=(const AtomicDirectory&) = delete;

  const std::string& path() const { return path_; }
  std::string file(std::string_view name) const { return path_ + "/" + std::string(name); }
  void commit();

 private:
  std::string final_path_, path_;
  int lock_ = -1;  // held while we live, so that a sweep tells a leftover from a directory being written
};

/// Removes what crashed AtomicDirectories and write_file_atomically left in `parent`, and puts back a
/// directory that a crash caught between its two renames. Those that a living process still writes stay.
/// Returns the paths it dealt with. A `parent` that does not exist holds nothing.
std::vector<std::string> sweep_partial(const std::string& parent);

/// Bytes that an ordinary user may still write to the file system that holds `path` (or its nearest ancestor
/// that exists).
std::uint64_t free_disk_bytes(const std::string& path);

/// IoError with both numbers where fewer than `bytes` are free. `what` is what they are for: "a checkpoint".
void require_disk_space(const std::string& path, std::uint64_t bytes, std::string_view what);

/// mkdir -p; IoError names the directory.
void make_directories(const std::string& path);

}  // namespace ingot
