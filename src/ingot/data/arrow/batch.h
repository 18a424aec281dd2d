#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "ingot/data/arrow/schema.h"

namespace ingot::data::arrow {

/// The values of one field in a batch; views of the batch's bytes.
struct Column {
  const Field* field = nullptr;
  std::int64_t length = 0;
  std::string_view validity = {};  ///< a bit for each value, 0 where it is null; empty: none is
  std::string_view offsets = {};   ///< of strings and lists
  std::string_view data = {};      ///< of values, or of indices into `dictionary`
  std::vector<Column> children = {};
  const Column* dictionary = nullptr;
};

/// The values behind indices, by the number that fields name.
using Dictionaries = std::map<std::int64_t, Column>;

/// Rows of all columns.
class Batch {
 public:
  /// `about`: a RecordBatch; `body`: the bytes behind it, which outlive this. Every buffer is checked against
  /// its column.
  Batch(const Field& root, const Table& about, std::string_view body, const Dictionaries& dictionaries,
        const Location& location);
  const Column& root() const { return root_; }
  /// Of buffers that were packed.
  std::size_t unpacked_bytes() const;

 private:
  std::list<std::string> unpacked_;
  Column root_;
};

/// Values that may still be read from a file, so that lists of nothing cannot go on forever.
class Values {
 public:
  explicit Values(std::size_t bytes) : left_(1 << 20) { allow(bytes); }
  void allow(std::size_t bytes) { left_ += static_cast<std::int64_t>(bytes) * 64; }
  void take(std::int64_t count, const Location& location) {
    left_ -= count;
    if (count < 0 || left_ < 0)
      location.fail("claims more values than its bytes can hold; the file is damaged");
  }

 private:
  std::int64_t left_;
};

/// A value as data::Record has it.
nlohmann::ordered_json read_value(const Column& column, std::int64_t row, Values& values,
                                  const Location& location);

}  // namespace ingot::data::arrow
