#include "ingot/text/files.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "ingot/base/error.h"

namespace ingot::text {

namespace {

struct Close {
  void operator()(std::FILE* f) const { std::fclose(f); }
};

}  // namespace

std::string read_file(const std::filesystem::path& path) {
  const std::unique_ptr<std::FILE, Close> file(std::fopen(path.c_str(), "rb"));
  INGOT_CHECK(file != nullptr, IoError(path.string(), std::string("cannot open: ") + std::strerror(errno)));
  std::string content;
  std::error_code error;
  if (const auto size = std::filesystem::file_size(path, error); !error) content.reserve(size + 1);
  std::size_t used = 0;
  do {  // by what can be read, not by what the directory says: the path may be a pipe
    content.resize(std::max<std::size_t>(content.capacity(), used + (64 << 10)));
    used += std::fread(content.data() + used, 1, content.size() - used, file.get());
  } while (used == content.size());
  INGOT_CHECK(std::ferror(file.get()) == 0,
              IoError(path.string(), std::string("cannot read: ") + std::strerror(errno)));
  content.resize(used);
  return content;
}

void write_file(const std::filesystem::path& path, std::string_view content) {
  std::FILE* file = std::fopen(path.c_str(), "wb");
  INGOT_CHECK(file != nullptr, IoError(path.string(), std::string("cannot create: ") + std::strerror(errno)));
  const bool written = std::fwrite(content.data(), 1, content.size(), file) == content.size();
  const bool closed = std::fclose(file) == 0;
  INGOT_CHECK(written && closed,
              IoError(path.string(), std::string("cannot write: ") + std::strerror(errno)));
}

}  // namespace ingot::text
