#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace ingot::test {

/// Writes parts of HDF5 files in sequence, also those that no library would write. Each part gives its
/// address. Numbers are little-endian, addresses of 8 bytes.
class Hdf5Builder {
 public:
  static std::string number(std::uint64_t value, int bytes) {
    std::string out;
    for (; bytes > 0; --bytes, value >>= 8) out += static_cast<char>(value & 255);
    return out;
  }

  std::uint64_t next() const { return file_.size(); }
  std::uint64_t add(const std::string& bytes) {
    file_ += bytes;
    return file_.size() - bytes.size();
  }

  struct Message {
    int type;
    std::string body;
  };
  static std::string header_of(const std::vector<Message>& messages) {
    std::string all;
    for (const Message& message : messages)
      all += number(static_cast<std::uint64_t>(message.type), 1) + number(message.body.size(), 2) + '\0' +
             message.body;
    return std::string("OHDR\2\2", 6) + number(all.size(), 4) + all + number(0, 4);  // no checksum
  }
  std::uint64_t header(const std::vector<Message>& messages) { return add(header_of(messages)); }

  static Message space(const std::vector<std::uint64_t>& shape) {
    std::string body = '\2' + number(shape.size(), 1) + std::string("\0\1", 2);
    for (const std::uint64_t size : shape) body += number(size, 8);
    return {1, body};
  }
  /// Class 0: integers of 1 to 8 bytes; 1: float32 or what else the size says.
  static Message type(int kind, std::uint64_t size) {
    return {3, number(0x10U | static_cast<unsigned>(kind), 1) + number(8, 3) + number(size, 4) +
                   std::string("\0\0\x20\0\x17\x08\0\x17\x7f\0\0\0", 12)};
  }
  static Message contiguous(std::uint64_t address, std::uint64_t size) {
    return {8, "\3\1" + number(address, 8) + number(size, 8)};
  }
  /// `chunk`: its shape, and the element's size.
  static Message chunked(std::uint64_t index, const std::vector<std::uint64_t>& chunk) {
    std::string body = "\3\2" + number(chunk.size(), 1) + number(index, 8);
    for (const std::uint64_t size : chunk) body += number(size, 4);
    return {8, body};
  }
  static Message filters(const std::vector<int>& ids) {
    std::string body = '\2' + number(ids.size(), 1);
    for (const int id : ids) body += number(static_cast<std::uint64_t>(id), 2) + number(0, 4);
    return {11, body};
  }
  static Message link(const std::string& name, std::uint64_t object) {
    return {6, std::string("\1\0", 2) + number(name.size(), 1) + name + number(object, 8)};
  }
  static Message symbols(std::uint64_t tree, std::uint64_t heap) {
    return {17, number(tree, 8) + number(heap, 8)};
  }
  /// A text of variable length: object `index` of the heap at `heap`, `size` bytes of it.
  static Message attribute(const std::string& name, std::uint64_t size, std::uint64_t heap,
                           std::uint64_t index) {
    const std::string variable = '\x19' + number(0, 3) + number(16, 4), scalar("\2\0\0\0", 4);
    return {12, std::string("\3\0", 2) + number(name.size(), 2) + number(variable.size(), 2) +
                    number(scalar.size(), 2) + '\0' + name + variable + scalar + number(size, 4) +
                    number(heap, 8) + number(index, 4)};
  }

  /// A heap of names.
  std::uint64_t names(const std::string& text) {
    const std::uint64_t data = add(text);
    return add("HEAP" + number(0, 4) + number(text.size(), 8) + number(0, 8) + number(data, 8));
  }
  /// A heap of texts, numbered from 1.
  std::uint64_t texts(const std::vector<std::string>& texts) {
    std::string all = "GCOL" + number(1, 4) + number(0, 8);
    for (std::size_t i = 0; i < texts.size(); ++i)
      all += number(i + 1, 2) + number(0, 6) + number(texts[i].size(), 8) + texts[i] +
             std::string((8 - texts[i].size() % 8) % 8, '\0');
    return add(all + number(0, 16));
  }

  struct Chunk {
    std::vector<std::uint64_t> offset;
    std::uint64_t address, size;
  };
  static std::string index_of(const std::vector<Chunk>& chunks, int level = 0) {
    std::string all = std::string("TREE\1", 5) + number(static_cast<std::uint64_t>(level), 1) +
                      number(chunks.size(), 2) + number(0, 16);
    for (const Chunk& chunk : chunks) {
      all += number(chunk.size, 4) + number(0, 4);
      for (const std::uint64_t offset : chunk.offset) all += number(offset, 8);
      all += number(0, 8) + number(chunk.address, 8);
    }
    return all;
  }
  std::uint64_t index(const std::vector<Chunk>& chunks) { return add(index_of(chunks)); }

  /// The file, with the object at `root` as its root.
  std::string finish(std::uint64_t root) const {
    std::string file = file_;
    const std::string start = std::string("\x89HDF\r\n\x1a\n\3\x8\x8\1", 12) + number(0, 8) +
                              number(~std::uint64_t{0}, 8) + number(file.size(), 8) + number(root, 8) +
                              number(0, 4);
    return file.replace(0, start.size(), start);
  }

 private:
  std::string file_ = std::string(48, '\0');
};

}  // namespace ingot::test
