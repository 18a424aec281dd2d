#include <algorithm>
#include <cstring>
#include <utility>

#include "tests/fuzz/generate/source.h"

// NumPy's archives, Arrow files, and what `datasets` writes beside them.

namespace ingot::test {
namespace {

std::uint32_t crc32(std::string_view bytes) {
  std::uint32_t crc = 0xFFFFFFFF;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xEDB88320U : 0U);
  }
  return ~crc;
}

/// As deflate stores it: one block, not compressed.
std::string stored_block(Source& source, const std::string& content) {
  const std::uint64_t size = source.nearly(content.size());
  return "\1" + little(size, 2) + little(~size, 2) + content;
}

/// An array that can be read, more often than hostile_npy() makes one.
std::string plain_npy(Source& source) {
  const std::uint64_t rows = source.below(5);
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (" +
                       std::to_string(source.nearly(rows)) + ", 3), }\n";
  return std::string("\x93NUMPY\1\0", 8) + little(header.size(), 2) + header + std::string(rows * 12, '\1');
}

}  // namespace

std::string hostile_npz(Source& source) {
  std::string file, directory;
  std::uint64_t entries = 0;
  for (std::size_t n = source.one_in(30) ? 3000 : source.below(5); n > 0 && file.size() < (1U << 20); --n) {
    std::string content = source.one_in(3) ? hostile_npy(source) : plain_npy(source);
    if (content.size() > 40000) content.resize(40000);
    const bool deflated = source.one_in(2);
    const std::string stored = deflated ? stored_block(source, content) : content;
    const std::string name =
        source.one_in(5) ? source.text()
                         : std::string(source.one_in(8) ? "../" : "") + "a" + std::to_string(n) + ".npy";
    const std::string common =
        little(source.one_in(30) ? source.integer() : 0, 2) + little(source.nearly(deflated ? 8 : 0), 2) +
        little(0, 4) + little(source.nearly(crc32(content)), 4) + little(source.nearly(stored.size()), 4) +
        little(source.nearly(content.size()), 4) + little(source.nearly(name.size()), 2);
    // The large sizes of zip64, behind the name.
    const std::string extra = source.one_in(10)
                                  ? little(1, 2) + little(source.nearly(16), 2) +
                                        little(source.nearly(8), 8) + little(source.nearly(8), 8)
                                  : "";
    directory += "PK\1\2" + little(20, 2) + little(20, 2) + common + little(extra.size(), 2) + little(0, 10) +
                 little(source.nearly(file.size()), 4) + name + extra;
    file += "PK\3\4" + little(20, 2) + common + little(extra.size(), 2) + name + extra + stored;
    ++entries;
  }
  const std::uint64_t at = file.size();
  return file + directory + "PK\5\6" + little(0, 4) + little(source.nearly(entries), 2) +
         little(source.nearly(entries), 2) + little(source.nearly(directory.size()), 4) +
         little(source.nearly(at), 4) + little(0, 2);
}

namespace {

/// Where the descriptions of an Arrow file's messages stand: behind a mark and their size.
std::vector<std::pair<std::size_t, std::size_t>> descriptions(const std::string& file) {
  std::vector<std::pair<std::size_t, std::size_t>> found;
  for (std::size_t at = file.find("\xFF\xFF\xFF\xFF"); at != file.npos;
       at = file.find("\xFF\xFF\xFF\xFF", at + 4)) {
    std::uint32_t size = 0;
    if (at + 8 > file.size()) break;
    std::memcpy(&size, file.data() + at + 4, 4);
    if (size >= 16 && size <= file.size() - at - 8) found.emplace_back(at + 8, size);
  }
  if (file.starts_with("ARROW1") && file.size() > 64) found.emplace_back(file.size() - 64, 54);
  return found;
}

}  // namespace

/// A good file whose descriptions (types, lengths, offsets of buffers) are changed: its values are not what
/// breaks a reader.
std::string hostile_arrow(Source& source, const std::vector<std::string>& corpus) {
  std::string file = source.of(corpus);
  const auto places = descriptions(file);
  if (places.empty()) return file;
  for (std::size_t n = 1 + source.below(4); n > 0; --n) {
    const auto& [begin, size] = source.of(places);
    const std::size_t width = std::size_t{1} << source.below(4);
    if (size < width) continue;
    char* const slot = file.data() + begin + source.below(size / width) * width;
    std::uint64_t value = 0;
    std::memcpy(&value, slot, width);
    value = source.one_in(2) ? value + source.below(17) - 8 : static_cast<std::uint64_t>(source.integer());
    std::memcpy(slot, &value, width);
  }
  return file;
}

std::string hostile_saved_dataset(Source& source) {
  const auto names = [&](std::string_view member) {
    std::string list;
    for (std::size_t n = source.below(4); n > 0; --n) {
      const std::string name = "\"" +
                               std::string(source.one_of({"train", "test", ".", "..", "", "a/b", "/dev/zero",
                                                          "data.arrow", "x\\u0000y", "\xFF"})) +
                               "\"";
      list += (list.empty() ? "" : ",") +
              (member.empty() ? name : "{\"" + std::string(member) + "\":" + name + "}");
    }
    return "[" + list + "]";
  };
  const std::vector<std::string_view> keys{"splits", "_data_files", "filename", "_split"};
  const auto file = [&](const std::string& usual) {
    return source.one_in(4) ? hostile_json(source, keys) : usual;
  };
  std::string files;
  if (!source.one_in(3)) files += file("{\"splits\":" + names("") + "}");
  files += '\x1E' + file("{\"_data_files\":" + names("filename") +
                         ",\"_split\":" + (source.one_in(3) ? source.number() : "\"train\"") + "}");
  files += '\x1E';
  if (source.one_in(3)) files += file("{\"splits\":" + names("") + "}");
  return files;
}

}  // namespace ingot::test
