#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "ingot/hub/http.h"

namespace ingot::hub {

/// A file to fetch and what is known of it beforehand; empty means not known.
struct Download {
  HttpRequest request;
  std::string target;
  std::optional<std::uint64_t> size;
  std::string sha256;    ///< 64 hexadecimal digits
  std::string git_sha1;  ///< of "blob <size>\0" and the content, git's name of a file
  std::string etag;      ///< continue an earlier part only if the server's file still has this tag
  /// Called with the number of bytes that arrived, or were there from an earlier run; negative when some have
  /// to be fetched again. From this thread. May throw to stop.
  std::function<void(std::int64_t)> on_bytes;
};

/// Fetches a file to `<target>.incomplete`, checks it and renames it. A part that an earlier run left there
/// is continued where the server has ranges; one that answers with the whole file is taken from the start.
/// What arrived before a failure stays for the next run, but for content whose hash is wrong. Throws
/// HttpError, or IoError for the disk. The caller sees to it that nobody else fetches the same target
/// (FileLock).
void download(HttpClient& client, const Download& file);

/// Whether the file at `path` is the one described: size, and hash where one is given.
bool is_intact(const std::string& path, const Download& file);

/// Git's hash of a file's content as a blob: 40 hexadecimal digits.
std::string git_blob_sha1(const std::string& path);

/// An exclusive lock on a lock file (flock, as huggingface_hub takes it), held for as long as it lives. Waits
/// for another holder and says so after a moment. The file stays.
class FileLock {
 public:
  explicit FileLock(const std::string& path);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  int fd_ = -1;
};

}  // namespace ingot::hub
