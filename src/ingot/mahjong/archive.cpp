#include <algorithm>
#include <memory>

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "ingot/base/files.h"
#include "ingot/base/percent.h"
#include "ingot/mahjong/log.h"

namespace ingot::mahjong {

namespace {

constexpr const char* kStandardInput = "-";

// Who opens a pipe waits for a writer, and /dev/zero never ends.
gzFile_s* open_log(const std::string& path) {
  if (path == kStandardInput) return gzdopen(dup(STDIN_FILENO), "rb");
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return nullptr;
  struct stat info {};
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    ::close(fd);
    throw IoError(path, "is not a regular file; expected one, or '-' for standard input");
  }
  return gzdopen(fd, "rb");
}

}  // namespace

std::string read_maybe_gzip(const std::string& path, std::size_t max_bytes) {
  struct Close {
    void operator()(gzFile_s* file) const { gzclose(file); }
  };
  const std::unique_ptr<gzFile_s, Close> file(open_log(path));
  if (!file) throw IoError(path, "cannot be opened");
  std::string content;
  char buffer[1 << 16];
  while (true) {
    const int got = gzread(file.get(), buffer, sizeof buffer);
    int code = Z_OK;
    const char* problem = gzerror(file.get(), &code);
    // Z_BUF_ERROR: the compressed stream stops in its middle.
    if (got < 0 || code == Z_BUF_ERROR) throw FormatError(path, -1, "gzip", problem);
    if (got == 0) return content;
    if (content.size() + static_cast<std::size_t>(got) > max_bytes)
      throw FormatError(path, -1, "gzip",
                        fmt::format("holds more than {} bytes, the limit for one log", max_bytes));
    content.append(buffer, static_cast<std::size_t>(got));
  }
}

void write_log(const std::string& path, const std::string& text) {
  if (!path.ends_with(".gz")) return write_file_atomically(path, text);
  z_stream stream{};
  constexpr int kGzipWindow = 15 + 16, kUsualMemory = 8;
  if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kGzipWindow, kUsualMemory,
                   Z_DEFAULT_STRATEGY) != Z_OK)
    throw IoError(path, "zlib cannot compress");
  std::string packed(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  const int code = deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  if (code != Z_STREAM_END) throw IoError(path, "zlib cannot compress");
  write_file_atomically(path, packed);
}

// Links to Tenhou's viewer, one a line, as the documents that they hold.
std::string documents_of_links(std::string_view body) {
  constexpr std::string_view kMark = "#json=";
  std::string documents;
  while (!body.empty()) {
    const std::size_t end = std::min(body.find('\n'), body.size());
    std::string_view line = body.substr(0, end);
    body.remove_prefix(std::min(end + 1, body.size()));
    if (const std::size_t at = line.find(kMark); at != std::string_view::npos)
      line.remove_prefix(at + kMark.size());
    line = line.substr(0, line.rfind("&ts="));  // the round that the viewer begins with
    documents += percent_decode(line) + '\n';
  }
  return documents;
}

GameLog parse_log(std::string_view content, const std::string& source, const Rules& otherwise) {
  const std::size_t first = content.find_first_not_of(" \t\r\n\xEF\xBB\xBF");
  if (first == std::string_view::npos) throw FormatError(source, 0, "log", "is empty");
  const std::string_view body = content.substr(first);
  if (body[0] == '<') return read_mjlog(body, source);
  const std::string_view line = body.substr(0, body.find('\n'));
  if (line.find("\"type\"") != std::string_view::npos) return read_mjai(body, source, otherwise);
  if (line.starts_with("http") && line.find("#json=") != std::string_view::npos)
    return read_tenhou_json(documents_of_links(body), source, otherwise);
  if (line.starts_with("http"))
    throw FormatError(source, 0, "log",
                      "is a link to a game; download the log and give its file (links with #json= are read)");
  return read_tenhou_json(body, source, otherwise);
}

GameLog read_log(const std::string& path, const Rules& otherwise, std::size_t max_bytes) {
  const std::string content = read_maybe_gzip(path, max_bytes);
  return parse_log(content, path == kStandardInput ? "standard input" : path, otherwise);
}

}  // namespace ingot::mahjong
