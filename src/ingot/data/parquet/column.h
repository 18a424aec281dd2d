#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ingot/data/parquet/bits.h"
#include "ingot/data/parquet/metadata.h"
#include "ingot/data/parquet/values.h"

namespace ingot::data::parquet {

/// A column of the schema.
struct Leaf {
  Element element;
  std::string path;               ///< "messages.list.element.role"
  std::uint32_t definitions = 0;  ///< the level at which a value is there
  std::uint32_t repetitions = 0;  ///< the deepest level at which something repeats
};

/// How many bytes of unpacked pages a file may hold at once. They are there as long as they are read.
class Budget {
 public:
  explicit Budget(std::size_t file_size);
  /// FormatError of `location` where it is spent. `freed`: what was taken before and is no longer needed.
  void take(std::size_t bytes, std::size_t freed, const Location& location);

 private:
  std::size_t left_;
};

/// The entries of a column in one row group, one by one: a value, or the level at which there is none. One
/// page is in memory at a time.
class ColumnReader {
 public:
  ColumnReader(std::string_view file, const std::string& path, const Leaf& leaf, const Chunk& chunk,
               Budget& budget);

  const Leaf& leaf() const { return leaf_; }
  const Location& location() const { return location_; }
  /// Whether an entry is there.
  bool more() const { return more_; }
  /// The levels of this entry: at which something repeats (0: a row begins), and up to which all is there.
  /// FormatError where there is none.
  std::uint32_t repetition() const { return more_ ? repetition_ : 0; }
  std::uint32_t definition() const {
    if (!more_) fail_early();
    return definition_;
  }
  /// The value of this entry, whose definition is the leaf's; until advance().
  Value value() { return values_->next(location_); }
  /// Goes on to the next entry. The value of this one, if it has one, must have been read.
  void advance();

 private:
  [[noreturn]] void fail_early() const;
  void next_page();
  void open_v1(const PageHeader& header, std::string_view packed);
  void open_v2(const PageHeader& header, std::string_view packed);
  void open_dictionary(const PageHeader& header, std::string_view packed);
  std::string_view unpacked(std::string_view packed, std::size_t size, bool is_packed, std::string& into);
  void load_levels();

  std::string_view file_;
  const Leaf& leaf_;
  const Chunk& chunk_;
  Budget& budget_;
  Location location_;
  std::int64_t at_ = 0, end_ = 0;  // in the file
  std::int64_t left_ = 0;          // entries of the chunk that are not opened yet
  std::int64_t in_page_ = 0;       // entries of the page that are not read yet
  std::string page_, dictionary_page_;
  std::vector<Value> dictionary_;
  bool has_dictionary_ = false;
  RunReader repetitions_, definitions_;
  std::unique_ptr<ValueReader> values_;
  std::uint32_t repetition_ = 0, definition_ = 0;
  bool more_ = false;
};

}  // namespace ingot::data::parquet
