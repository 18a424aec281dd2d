#include "tests/fuzz/generate/source.h"
#include "tests/support/hdf5_builder.h"

// HDF5 files of groups and datasets that headers describe nearly rightly.

namespace ingot::test {
namespace {

class Hdf5 {
 public:
  explicit Hdf5(Source& source) : source_(source) {}

  std::string write() {
    const std::uint64_t root = group(0);
    std::string file = builder_.finish(root);
    if (source_.one_in(4)) file[source_.below(file.size())] = static_cast<char>(source_.next());
    return file;
  }

 private:
  using Message = Hdf5Builder::Message;

  /// Now and then another number than the one that is meant.
  std::uint64_t about(std::uint64_t value) {
    if (source_.one_in(40)) return static_cast<std::uint64_t>(source_.integer());
    return source_.one_in(40) ? source_.below(builder_.next()) : value;
  }

  std::uint64_t group(int depth) {
    std::vector<Message> messages;
    std::vector<std::uint64_t> objects;
    for (std::size_t n = 1 + source_.below(4); n > 0; --n)
      objects.push_back(depth < 4 && source_.one_in(3) ? group(depth + 1) : dataset());
    if (source_.one_in(2)) {
      for (const std::uint64_t object : objects)
        messages.push_back(Hdf5Builder::link(source_.text().substr(0, 100), about(object)));
    } else {
      messages.push_back(table(objects));
    }
    if (source_.one_in(3)) {
      const std::uint64_t heap = builder_.texts({source_.text(), source_.text()});
      for (std::size_t n = source_.one_in(6) ? 3000 : source_.below(4); n > 0; --n)
        messages.push_back(Hdf5Builder::attribute("a" + std::to_string(n), about(20), about(heap),
                                                  about(1 + source_.below(2))));
    }
    return builder_.header(messages);
  }

  /// The older layout: a tree of nodes of symbols, and a heap of their names.
  Message table(const std::vector<std::uint64_t>& objects) {
    const std::uint64_t heap = builder_.names(source_.text() + '\0' + source_.text() + '\0');
    std::string node = std::string("SNOD\1\0", 6) + Hdf5Builder::number(about(objects.size()), 2);
    for (const std::uint64_t object : objects)
      node += Hdf5Builder::number(about(source_.below(3)), 8) + Hdf5Builder::number(about(object), 8) +
              Hdf5Builder::number(source_.one_in(6) ? 2 : 0, 4) + Hdf5Builder::number(0, 20);
    const std::uint64_t leaf = builder_.add(node);
    const std::size_t children = source_.one_in(20) ? 3000 : 1;
    std::string tree =
        std::string("TREE\0\0", 6) + Hdf5Builder::number(about(children), 2) + Hdf5Builder::number(0, 24);
    for (std::size_t i = 0; i < children; ++i)
      tree += Hdf5Builder::number(about(leaf), 8) + Hdf5Builder::number(0, 8);
    return Hdf5Builder::symbols(about(builder_.add(tree)), about(heap));
  }

  std::uint64_t dataset() {
    static constexpr std::array<std::uint64_t, 5> kSizes{1, 2, 4, 8, 8};
    const std::uint64_t element = source_.of(kSizes);
    std::vector<std::uint64_t> shape(source_.below(4));
    std::uint64_t bytes = element;
    for (std::uint64_t& size : shape) bytes *= size = 1 + source_.below(9);
    std::vector<Message> messages{type(element)};
    for (std::uint64_t& size : shape) size = about(size);
    messages.push_back(Hdf5Builder::space(shape));
    if (shape.empty() || source_.one_in(3)) {
      const std::uint64_t at = builder_.add(std::string(bytes, '\1'));
      messages.push_back(Hdf5Builder::contiguous(about(at), about(bytes)));
    } else {
      chunks(shape, element, messages);
    }
    return builder_.header(messages);
  }

  Message type(std::uint64_t element) {
    return Hdf5Builder::type(source_.one_in(10) ? static_cast<int>(source_.below(16)) : source_.one_in(2),
                             about(element));
  }

  /// Along the first axis alone, in pieces.
  void chunks(const std::vector<std::uint64_t>& shape, std::uint64_t element,
              std::vector<Message>& messages) {
    std::vector<std::uint64_t> chunk = shape;
    chunk[0] = 1 + source_.below(3);
    std::uint64_t bytes = element;
    for (const std::uint64_t size : chunk) bytes *= size;
    bytes = std::min<std::uint64_t>(bytes, 4096);
    std::vector<Hdf5Builder::Chunk> pieces;
    const std::uint64_t shared = builder_.next();
    for (std::uint64_t row = 0; row < std::min<std::uint64_t>(shape[0], 64); row += chunk[0]) {
      const std::uint64_t at = builder_.add(std::string(bytes, '\2'));
      std::vector<std::uint64_t> offset(shape.size(), 0);
      offset[0] = about(row);
      pieces.push_back({offset, about(source_.one_in(30) ? shared : at), about(bytes)});
    }
    std::uint64_t index = builder_.add(Hdf5Builder::index_of(pieces, source_.one_in(30) ? 1 : 0));
    if (!pieces.empty() && source_.one_in(10)) index = builder_.index({{pieces.front().offset, index, 0}});
    for (std::uint64_t& size : chunk) size = about(size);
    chunk.push_back(about(element));
    messages.push_back(Hdf5Builder::chunked(about(index), chunk));
    if (source_.one_in(3))
      messages.push_back(
          Hdf5Builder::filters(std::vector<int>(source_.below(40), static_cast<int>(source_.below(4)))));
  }

  Source& source_;
  Hdf5Builder builder_;
};

}  // namespace

std::string hostile_hdf5(Source& source) { return Hdf5(source).write(); }

}  // namespace ingot::test
