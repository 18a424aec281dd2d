#include <algorithm>
#include <cstring>

#include "tests/fuzz/generate/source.h"

namespace ingot::test {
namespace {

/// A number of 1 to 8 bytes, in either order, somewhere: most formats say sizes and offsets so.
void plant_number(Source& source, std::string& file) {
  const std::size_t width = std::size_t{1} << source.below(4);
  if (file.size() < width) return;
  std::uint64_t value = static_cast<std::uint64_t>(source.integer());
  std::array<char, 8> bytes{};
  std::memcpy(bytes.data(), &value, 8);
  if (source.one_in(3)) std::reverse(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(width));
  std::memcpy(file.data() + source.below(file.size() - width + 1), bytes.data(), width);
}

void repeat_part(Source& source, std::string& file) {
  const std::size_t begin = source.below(file.size()),
                    length = 1 + source.below(std::min<std::size_t>(file.size() - begin, 64));
  const std::string part = file.substr(begin, length);
  std::string many;
  for (std::size_t n = source.one_in(8) ? 20000 / length + 1 : 1 + source.below(20); n > 0; --n) many += part;
  file.insert(begin, many);
}

void splice(Source& source, std::string& file, const std::string& other) {
  file = file.substr(0, source.below(file.size() + 1)) + other.substr(source.below(other.size() + 1));
}

}  // namespace

std::string mutated_bytes(Source& source, const std::vector<std::string>& corpus) {
  std::string file = source.of(corpus);
  for (std::size_t n = 1 + source.below(6); n > 0 && !file.empty(); --n) {
    switch (source.below(6)) {
      case 0:
      case 1:
      case 2:
        plant_number(source, file);
        break;
      case 3:
        repeat_part(source, file);
        break;
      case 4:
        splice(source, file, source.of(corpus));
        break;
      default:
        file[source.below(file.size())] = static_cast<char>(source.next());
    }
  }
  return file;
}

}  // namespace ingot::test
