#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "tests/fuzz/weights_target.h"

#include "ingot/base/hash.h"
#include "ingot/weights/sorted_table.h"
#include "ingot/weights/tensorflow.h"

namespace {

void append(std::string& file, std::uint64_t number, int bytes) {
  for (int i = 0; i < bytes; ++i) file += static_cast<char>(number >> (8 * i));
}

void append_varint(std::string& file, std::uint64_t number) {
  for (; number >= 0x80; number >>= 7) file += static_cast<char>(number | 0x80);
  file += static_cast<char>(number);
}

std::string handle(std::uint64_t offset, std::uint64_t size) {
  std::string text;
  append_varint(text, offset);
  append_varint(text, size);
  return text;
}

/// Puts a block at the end of a file, and gives its handle.
std::string append_block(std::string& file, std::string_view content) {
  const std::string place = handle(file.size(), content.size());
  const std::string checked = std::string(content) + '\0';
  file += checked;
  append(file, ingot::masked_crc32c(checked), 4);
  return place;
}

/// A table of one block: a fuzzer does not guess CRCs, and would never get beyond them.
std::string table_of(std::string_view block) {
  std::string file, index;
  const std::string place = append_block(file, block);
  append_varint(index, 0);
  append_varint(index, 1);
  append_varint(index, place.size());
  index += "z" + place;
  append(index, 0, 4);
  append(index, 1, 4);
  std::string footer = handle(0, 0) + append_block(file, index);
  footer.resize(40);
  file += footer;
  append(file, ingot::kSortedTableMagic, 8);
  return file;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto open = [](ingot::Blob index) {
    return ingot::open_tensorflow(
        std::move(index), [](int, int) { return ingot::memory_blob("shard", std::vector<std::byte>(1024)); });
  };
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  for (const std::string& file : {std::string(input), table_of(input)}) {
    const auto bytes = std::as_bytes(std::span(file));
    ingot::test::read_all_weights(open, {bytes.begin(), bytes.end()});
  }
  return 0;
}
