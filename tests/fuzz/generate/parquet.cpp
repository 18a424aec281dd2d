#include <string>

#include "tests/fuzz/generate/source.h"

namespace ingot::test {
namespace {

// Thrift's compact protocol: fields of one struct, whose numbers are at times not those that were meant.
class Struct {
 public:
  explicit Struct(Source& source) : source_(source) {}

  Struct& number(int id, std::int64_t value) {
    if (source_.one_in(60)) value = source_.integer();
    return put(id, 6, zigzag(value));
  }
  Struct& text(int id, const std::string& value) { return put(id, 8, varint(value.size()) + value); }
  Struct& one(int id, const Struct& value) { return put(id, 12, value.bytes()); }
  Struct& list(int id, int type, const std::vector<std::string>& values) {
    std::uint64_t size = values.size();
    if (source_.one_in(60)) size = static_cast<std::uint64_t>(source_.integer());
    std::string all(1, static_cast<char>(0xF0 | type));
    all += varint(size);
    for (const std::string& value : values) all += value;
    return put(id, 9, all);
  }
  std::string bytes() const { return bytes_ + '\0'; }

  static std::string varint(std::uint64_t value) {
    std::string out;
    for (; value >= 128; value >>= 7) out += static_cast<char>(value | 128);
    return out + static_cast<char>(value);
  }

 private:
  static std::string zigzag(std::int64_t value) {
    return varint((static_cast<std::uint64_t>(value) << 1) ^ static_cast<std::uint64_t>(value >> 63));
  }
  Struct& put(int id, int type, const std::string& value) {
    bytes_ += static_cast<char>((id - last_) << 4 | type);
    bytes_ += value;
    last_ = id;
    return *this;
  }

  Source& source_;
  std::string bytes_;
  int last_ = 0;
};

std::string noise(Source& source, std::size_t size) {
  std::string bytes;
  for (std::size_t i = 0; i < size; ++i)
    bytes += static_cast<char>(source.one_in(2) ? source.below(6) : source.next());
  return bytes;
}

// Columns, some of them lists or structs, as pages of noise that headers describe nearly rightly.
class File {
 public:
  explicit File(Source& source) : source_(source) {}

  std::string write() {
    elements_.push_back(
        Struct(source_).text(4, "root").number(5, static_cast<std::int64_t>(1 + source_.below(3))).bytes());
    const std::int64_t rows = static_cast<std::int64_t>(source_.below(40));
    for (std::size_t i = 0, n = 1 + source_.below(3); i < n; ++i)
      column(static_cast<int>(source_.below(4)), rows);
    const std::string group = Struct(source_).list(1, 12, chunks_).number(3, rows).bytes();
    const std::string footer =
        Struct(source_).number(1, 2).list(2, 12, elements_).number(3, rows).list(4, 12, {group}).bytes();
    std::string file = file_ + footer;
    for (unsigned i = 0; i < 4; ++i) file += static_cast<char>(footer.size() >> (8 * i));
    return file + "PAR1";
  }

 private:
  void column(int depth, std::int64_t rows) {
    if (depth > 1 && source_.one_in(3)) {  // a list's three levels
      elements_.push_back(Struct(source_).number(3, 1).text(4, "list").number(5, 1).number(6, 3).bytes());
      elements_.push_back(Struct(source_).number(3, 2).text(4, "middle").number(5, 1).bytes());
      return column(depth - 2, rows);
    }
    static constexpr std::array<int, 6> kConverted{0, 5, 6, 9, 10, 14};
    const auto type = static_cast<std::int64_t>(source_.below(8));
    Struct leaf(source_);
    leaf.number(1, type).number(2, static_cast<std::int64_t>(source_.below(17)));
    leaf.number(3, static_cast<std::int64_t>(source_.below(3))).text(4, "leaf");
    if (source_.one_in(2)) leaf.number(6, source_.of(kConverted));
    elements_.push_back(leaf.bytes());
    const std::size_t begin = file_.size();
    const auto codec = static_cast<std::int64_t>(source_.one_in(2) ? 0 : source_.below(8));
    for (std::size_t n = source_.below(3); n > 0; --n) page(rows);
    const Struct metadata = Struct(source_)
                                .number(1, type)
                                .number(4, codec)
                                .number(5, rows)
                                .number(7, static_cast<std::int64_t>(file_.size() - begin))
                                .number(9, static_cast<std::int64_t>(begin));
    chunks_.push_back(Struct(source_).number(2, 0).one(3, metadata).bytes());
  }

  void page(std::int64_t rows) {
    static constexpr std::array<int, 8> kEncodings{0, 2, 3, 5, 6, 7, 8, 9};
    const bool dictionary = source_.one_in(3), v2 = source_.one_in(2);
    const std::string body = noise(source_, source_.below(200));
    const auto size = static_cast<std::int64_t>(body.size());
    Struct header(source_);
    header.number(1, dictionary ? 2
                     : v2       ? 3
                                : 0)
        .number(2, source_.one_in(3) ? source_.integer() : size)
        .number(3, size);
    Struct inner(source_);
    inner.number(1, rows);
    if (dictionary) {
      header.one(7, inner.number(2, 0));
    } else if (v2) {
      inner.number(4, source_.of(kEncodings)).number(5, static_cast<std::int64_t>(source_.below(9)));
      header.one(8, inner.number(6, static_cast<std::int64_t>(source_.below(9))));
    } else {
      header.one(5, inner.number(2, source_.of(kEncodings)).number(3, 3).number(4, 3));
    }
    file_ += header.bytes() + body;
  }

  Source& source_;
  std::string file_ = "PAR1";
  std::vector<std::string> elements_, chunks_;
};

}  // namespace

std::string hostile_parquet(Source& source) { return File(source).write(); }

}  // namespace ingot::test
