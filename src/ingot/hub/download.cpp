#include "ingot/hub/download.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <thread>

#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/evp.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ingot/base/fault.h"
#include "ingot/base/files.h"
#include "ingot/base/hash.h"
#include "ingot/base/log.h"

namespace ingot::hub {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMostUnannounced = std::uint64_t{4} << 30;

std::uint64_t size_of(const std::string& path) {
  std::error_code missing;
  const auto size = fs::file_size(path, missing);
  return missing ? 0 : size;
}

/// The part of a file that is there, and how it grows.
class Partial {
 public:
  Partial(const Download& file, const std::string& path) : file_(file), path_(path), size_(size_of(path)) {
    report(static_cast<std::int64_t>(size_));
    if (file.size && size_ > *file.size) restart();
  }

  std::uint64_t size() const { return size_; }
  bool complete() const { return file_.size && size_ == *file_.size; }

  void restart() {
    report(-static_cast<std::int64_t>(size_));
    writer_.reset();
    FileWriter(path_).close();
    size_ = 0;
  }

  void append(std::span<const std::byte> piece) {
    if (!writer_) writer_.emplace(path_, FileWriter::Mode::append);
    const std::uint64_t limit = file_.size.value_or(kMostUnannounced);
    if (size_ + piece.size() > limit) {
      restart();  // another run would begin with what is too long
      throw HttpError(
          file_.request.url,
          fmt::format("sends more than the {} bytes {}", limit,
                      file_.size ? "it should have" : "that are taken where no size is announced"));
    }
    writer_->write(piece);
    size_ += piece.size();
    report(static_cast<std::int64_t>(piece.size()));
  }

  /// To the disk: also what came before a failure, for the next run.
  void close() {
    if (!writer_) return;
    writer_->sync();
    writer_->close();
    writer_.reset();
  }

 private:
  void report(std::int64_t bytes) const {
    if (file_.on_bytes && bytes != 0) file_.on_bytes(bytes);
  }

  const Download& file_;
  const std::string& path_;
  std::uint64_t size_;
  std::optional<FileWriter> writer_;
};

/// Where the answer's body belongs: behind what is there, or over it.
void begin_body(const HttpResponse& head, Partial& partial, const Download& file) {
  if (head.status == 200) {
    if (partial.size() > 0) partial.restart();
    return;
  }
  const auto range = parse_content_range(head.header("content-range"));
  INGOT_CHECK(range && range->first == static_cast<std::int64_t>(partial.size()),
              HttpError(head.url, fmt::format("was asked for bytes from {}, but sends '{}'", partial.size(),
                                              head.header("content-range"))));
  INGOT_CHECK(!file.size || range->total == -1 || range->total == static_cast<std::int64_t>(*file.size),
              HttpError(head.url, fmt::format("has {} bytes; {} were announced", range->total, *file.size)));
}

/// One request. True when the file is complete as far as the server says.
bool fetch_once(HttpClient& client, const Download& file, Partial& partial) {
  HttpRequest request = file.request;
  // Compressed on the way it would have another size, and ranges of something else.
  request.headers.emplace_back("Accept-Encoding", "identity");
  if (partial.size() > 0) {
    request.headers.emplace_back("Range", fmt::format("bytes={}-", partial.size()));
    if (!file.etag.empty()) request.headers.emplace_back("If-Range", "\"" + file.etag + "\"");
  }
  bool begun = false;
  const HttpResponse response =
      client.exchange(request, [&](const HttpResponse& head, std::span<const std::byte> piece) {
        if (!begun) begin_body(head, partial, file);
        begun = true;
        partial.append(piece);
        return true;
      });
  throw_if_busy(response);
  if (response.status == 416 && partial.size() > 0) {
    // Nothing behind what is there: all of it is there already, or it is not a part of this file.
    const auto range = parse_content_range(response.header("content-range"));
    if (range && range->total == static_cast<std::int64_t>(partial.size())) return true;
    partial.restart();
    return false;
  }
  if (response.status == 200 && !begun) partial.restart();  // an empty file
  if (response.status != 200 && response.status != 206) throw_refusal(file.request, response);
  if (file.size && partial.size() < *file.size) {
    throw HttpError(response.url, fmt::format("ends after {} of {} bytes", partial.size(), *file.size),
                    response.status, true);
  }
  return true;
}

void fetch(HttpClient& client, const Download& file, Partial& partial) {
  Backoff backoff(client.options());
  while (!partial.complete()) {
    const std::uint64_t before = partial.size();
    try {
      const bool done = fetch_once(client, file, partial);
      partial.close();
      if (done) return;
    } catch (const HttpError& error) {
      partial.close();
      backoff.progress(partial.size() > before ? partial.size() - before : 0);
      backoff.wait_or_throw(error);
    }
  }
  if (*file.size == 0) partial.restart();  // makes the empty file
}

/// What is wrong with a complete file; empty where it is as announced.
std::string wrong_hash(const std::string& path, const Download& file) {
  const auto compare = [](std::string_view kind, const std::string& got, const std::string& expected) {
    return got == expected ? std::string()
                           : fmt::format("the {} of what arrived is {}, expected {}", kind, got, expected);
  };
  if (!file.sha256.empty()) return compare("SHA-256", sha256_file(path), file.sha256);
  if (!file.git_sha1.empty()) return compare("git hash", git_blob_sha1(path), file.git_sha1);
  return {};
}

}  // namespace

std::string git_blob_sha1(const std::string& path) {
  const MappedFile content(path, MappedFile::Access::sequential);
  const std::string head = fmt::format("blob {}", content.bytes().size());
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  INGOT_CHECK(context && EVP_DigestInit_ex(context.get(), EVP_sha1(), nullptr) == 1 &&
                  EVP_DigestUpdate(context.get(), head.c_str(), head.size() + 1) == 1 &&
                  EVP_DigestUpdate(context.get(), content.bytes().data(), content.bytes().size()) == 1 &&
                  EVP_DigestFinal_ex(context.get(), digest.data(), &size) == 1,
              Error("SHA-1 is not available in this OpenSSL"));
  std::string hex;
  for (unsigned i = 0; i < size; ++i) fmt::format_to(std::back_inserter(hex), "{:02x}", digest[i]);
  return hex;
}

bool is_intact(const std::string& path, const Download& file) {
  std::error_code missing;
  if (!fs::is_regular_file(path, missing)) return false;
  if (file.size && size_of(path) != *file.size) return false;
  return wrong_hash(path, file).empty();
}

void download(HttpClient& client, const Download& file) {
  const std::uint64_t limit = client.options().max_bytes;
  INGOT_CHECK(limit == 0 || !file.size || *file.size <= limit,
              HttpError(file.request.url, fmt::format("has {} bytes, more than the limit of {}",
                                                      file.size.value_or(0), limit)));
  make_directories(fs::path(file.target).parent_path().string());
  const std::string path = file.target + ".incomplete";
  if (file.size) {
    const std::uint64_t there = std::min(size_of(path), *file.size);
    require_disk_space(file.target, *file.size - there, fs::path(file.target).filename().string());
  }
  for (int attempt = 1;; ++attempt) {
    Partial partial(file, path);
    const bool continued = partial.size() > 0;
    fetch(client, file, partial);
    const std::string problem = wrong_hash(path, file);
    if (problem.empty()) break;
    fs::remove(path);
    // A part that was continued may have been of another file; what came in one piece is wrong at its source.
    INGOT_CHECK(continued && attempt == 1, HttpError(file.request.url, problem + "; nothing was kept"));
    log(LogLevel::warn, "ingot::hub",
        fmt::format("{}: {}; fetching it from the start", file.target, problem));
    if (file.on_bytes) file.on_bytes(-static_cast<std::int64_t>(partial.size()));
  }
  fault_point("download.before_rename");
  fs::rename(path, file.target);
}

FileLock::FileLock(const std::string& path) {
  make_directories(fs::path(path).parent_path().string());
  while (true) {
    fd_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0664);
    INGOT_CHECK(fd_ >= 0, IoError(path, fmt::format("cannot create the lock: {}", std::strerror(errno))));
    if (flock(fd_, LOCK_EX | LOCK_NB) != 0) {
      if (errno == EWOULDBLOCK) {
        log(LogLevel::info, "ingot::hub", fmt::format("waiting for another process that holds {}", path));
      }
      while (flock(fd_, LOCK_EX) != 0 && errno == EINTR) {
      }
    }
    // The holder before may have removed the file: then this is a lock on nothing.
    struct stat ours {
    }, there{};
    if (fstat(fd_, &ours) == 0 && stat(path.c_str(), &there) == 0 && ours.st_ino == there.st_ino) return;
    close(fd_);
  }
}

FileLock::~FileLock() {
  if (fd_ >= 0) close(fd_);
}

}  // namespace ingot::hub
