#include "ingot/base/files.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "ingot/base/error.h"
#include "ingot/base/fault.h"
#include "ingot/base/file_error.h"
#include "ingot/base/units.h"

namespace ingot {
namespace {

namespace fs = std::filesystem;

// Without O_NONBLOCK, opening a pipe waits for somebody who writes to it.
constexpr int kReadOnly = O_RDONLY | O_NONBLOCK;

constexpr std::size_t kBufferBytes = std::size_t{1} << 20;

std::string advice_for(int code, const std::string& path) {
  switch (code) {
    case ENOENT:
      return "; check the path";
    case EACCES:
    case EPERM:
      return "; check who owns it and its permissions";
    case EROFS:
      return "; the file system is mounted read-only: choose another place";
    case EMFILE:
      return "; too many files are open: raise the limit (ulimit -n)";
    case EDQUOT:
      return "; your disk quota is used up: delete something, or write elsewhere";
    case ENOSPC:
      return fmt::format("; {} free there: delete something, or write elsewhere",
                         human_bytes(free_disk_bytes(path)));
    default:
      return "";
  }
}

}  // namespace

void throw_file_error(const std::string& path, std::string_view doing, int code) {
  const std::string advice = advice_for(code, path);
  throw IoError(path, fmt::format("cannot {}: {}{}", doing, std::strerror(code), advice));
}

namespace {

class Descriptor {
 public:
  Descriptor(const std::string& path, int flags) : fd_(open(path.c_str(), flags | O_CLOEXEC, 0666)) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

/// The size of a regular file that is open. Anything else cannot be read whole: a pipe may wait for ever, and
/// /dev/zero never ends.
std::size_t size_of(int fd, const std::string& path) {
  struct stat info {};
  if (fstat(fd, &info) != 0) throw_file_error(path, "look at it");
  INGOT_CHECK(!S_ISDIR(info.st_mode), IoError(path, "is a directory; expected a file"));
  INGOT_CHECK(S_ISREG(info.st_mode), IoError(path, "is a pipe, socket or device; expected a regular file"));
  return static_cast<std::size_t>(info.st_size);
}

}  // namespace

namespace {

constexpr std::string_view kStandardInput = "-";  // the file of this name is "./-"

std::string read_all(int fd, const std::string& path, std::size_t first_guess) {
  std::string content(first_guess + 1, '\0');
  std::size_t filled = 0;
  while (true) {
    if (filled == content.size()) content.resize(content.size() * 2 + 4096);
    const ssize_t got = read(fd, content.data() + filled, content.size() - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_file_error(path, "read it");
    if (got == 0) break;
    filled += static_cast<std::size_t>(got);
  }
  content.resize(filled);
  return content;
}

/// Read once: who looks at a file twice sees the same.
const std::string& standard_input() {
  static const std::string content = read_all(STDIN_FILENO, "standard input", 0);
  return content;
}

/// Where a mapping would lie: a pipe cannot be mapped.
std::span<std::byte> copy_of_standard_input() {
  const std::string& content = standard_input();
  if (content.empty()) return {};
  void* data = mmap(nullptr, content.size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) throw_file_error("standard input", "keep it in memory");
  return {static_cast<std::byte*>(std::memcpy(data, content.data(), content.size())), content.size()};
}

}  // namespace

std::string read_file(const std::string& path) {
  if (path == kStandardInput) return standard_input();
  const Descriptor file(path, kReadOnly);
  if (file.get() < 0) throw_file_error(path, "open it");
  // The size is a first guess only: what /proc holds says 0, and a file may grow.
  return read_all(file.get(), path, size_of(file.get(), path));
}

MappedFile::MappedFile(std::string path, Access access) : path_(std::move(path)) {
  if (path_ == kStandardInput) {
    const std::span<std::byte> copy = copy_of_standard_input();
    data_ = copy.data();
    size_ = copy.size();
    writable_ = true;
    return;
  }
  const Descriptor file(path_, kReadOnly);
  if (file.get() < 0) throw_file_error(path_, "open it");
  size_ = size_of(file.get(), path_);
  if (size_ == 0) return;  // mmap takes no empty range
  writable_ = access == Access::copy_on_write;
  // MAP_NORESERVE: only pages that are written cost memory, so a file larger than the memory is not an
  // objection.
  const int protection = writable_ ? PROT_READ | PROT_WRITE : PROT_READ;
  const int flags = writable_ ? MAP_PRIVATE | MAP_NORESERVE : MAP_SHARED;
  void* data = mmap(nullptr, size_, protection, flags, file.get(), 0);
  if (data == MAP_FAILED) throw_file_error(path_, "map it into memory");
  data_ = static_cast<const std::byte*>(data);
  if (access == Access::sequential) advise(0, size_, MADV_SEQUENTIAL);
  if (access == Access::random) advise(0, size_, MADV_RANDOM);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(const_cast<std::byte*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      writable_(other.writable_) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(writable_, other.writable_);
  return *this;
}

std::span<std::byte> MappedFile::writable_bytes() const {
  INGOT_ASSERT(writable_ || size_ == 0);
  return {const_cast<std::byte*>(data_), size_};
}

void MappedFile::advise(std::size_t offset, std::size_t size, int advice) const {
  if (offset >= size_) return;
  static const auto kPage = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t start = offset / kPage * kPage, end = std::min(size_, offset + std::min(size, size_));
  madvise(const_cast<std::byte*>(data_) + start, end - start, advice);
}
void MappedFile::will_need(std::size_t offset, std::size_t size) const {
  advise(offset, size, MADV_WILLNEED);
}
void MappedFile::will_not_need(std::size_t offset, std::size_t size) const {
  advise(offset, size, MADV_DONTNEED);
}

FileWriter::FileWriter(std::string path, Mode mode) : path_(std::move(path)) {
  const int flags = O_WRONLY | O_CREAT | O_CLOEXEC | (mode == Mode::append ? O_APPEND : O_TRUNC);
  fd_ = open(path_.c_str(), flags, 0666);
  if (fd_ < 0) throw_file_error(path_, "create it");
  buffer_.reserve(kBufferBytes);
}

FileWriter::~FileWriter() {
  if (fd_ >= 0) ::close(fd_);
}

void FileWriter::write_out(const std::byte* data, std::size_t size) {
  Fault::Kind then{};
  const std::uint64_t allowed = fault_bytes_allowed(size, then);
  const std::size_t whole = size;
  size = static_cast<std::size_t>(allowed);
  while (size > 0) {
    const ssize_t done = ::write(fd_, data, size);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) throw_file_error(path_, "write it");
    data += done;
    size -= static_cast<std::size_t>(done);
  }
  if (allowed == whole) return;
  if (then == Fault::Kind::crash) fault_crash();
  throw_file_error(path_, "write it", ENOSPC);
}

void FileWriter::write(std::span<const std::byte> bytes) {
  INGOT_ASSERT(fd_ >= 0);
  size_ += bytes.size();
  if (buffer_.size() + bytes.size() > kBufferBytes) flush();
  if (bytes.size() >= kBufferBytes) {
    write_out(bytes.data(), bytes.size());
  } else {
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  }
}
void FileWriter::write(std::string_view text) { write(std::as_bytes(std::span(text))); }

void FileWriter::flush() {
  if (buffer_.empty()) return;
  write_out(buffer_.data(), buffer_.size());
  buffer_.clear();
}

void FileWriter::sync() {
  flush();
  if (fsync(fd_) != 0) throw_file_error(path_, "write it to disk");
}

void FileWriter::close() {
  flush();
  // Network file systems report a full disk only here.
  if (::close(std::exchange(fd_, -1)) != 0) throw_file_error(path_, "finish writing it");
}

std::uint64_t free_disk_bytes(const std::string& path) {
  fs::path place = fs::absolute(path);
  struct statvfs info {};
  while (statvfs(place.c_str(), &info) != 0) {
    if (place == place.parent_path()) return 0;
    place = place.parent_path();
  }
  return std::uint64_t{info.f_bavail} * info.f_frsize;
}

void require_disk_space(const std::string& path, std::uint64_t bytes, std::string_view what) {
  const std::uint64_t there = free_disk_bytes(path);
  INGOT_CHECK(
      bytes <= there,
      IoError(path, fmt::format("{} needs {}, but the disk has {} free: delete something, or write elsewhere",
                                what, human_bytes(bytes), human_bytes(there))));
}

void make_directories(const std::string& path) {
  std::error_code code;
  fs::create_directories(path, code);
  if (code) throw_file_error(path, "create the directory", code.value());
}

}  // namespace ingot
