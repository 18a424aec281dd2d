#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace ingot::data {

/// The values of one column of a table in memory. Its kind is known, so that nothing is to be guessed.
struct TypedColumn {
  enum class Kind : std::uint8_t { text, real, whole, truth, moment };
  std::string name;
  Kind kind = Kind::text;
  std::vector<double> reals = {};          ///< NaN where a value is missing
  bool single = false;                     ///< reals were f32
  std::vector<std::int64_t> wholes = {};   ///< of whole, truth and moment
  std::vector<bool> missing = {};          ///< of wholes; none is behind its end
  std::int64_t units = 1;                  ///< of moments: so many a second since 1970
  bool days = false;                       ///< of moments: all are midnights, and are written without a time
  std::vector<std::int32_t> offsets = {};  ///< of moments with a zone: its seconds east of UTC
  std::string text = {};                   ///< of text: all cells, one behind another
  std::vector<std::size_t> ends = {};

  std::size_t rows() const;
  bool is_number() const { return kind == Kind::real || kind == Kind::whole || kind == Kind::truth; }
  /// Not of text, whose cells may mean that in their own words.
  bool is_missing(std::size_t row) const;
  /// Of numbers and truths; NaN where a value is missing.
  double number(std::size_t row) const;
  /// Of moments: seconds since 1970, fractions rounded to the nearest.
  std::int64_t seconds(std::size_t row) const;
  bool has_fraction(std::size_t row) const { return wholes[row] % units != 0; }
  /// As a cell of a CSV file has it: "2016-07-01 13:00:00", "1.5", "true"; empty where a value is missing.
  std::string cell(std::size_t row) const;

  /// Adds a cell of text, without the spaces around it, as cells of CSV are read.
  void add_text(std::string_view cell);
  void add_whole(std::int64_t value) { wholes.push_back(value); }
  /// A value that is missing, of any kind.
  void add_missing();
  /// Finds out `days`. To be called once, when all moments are there.
  void settle();
};

/// The cells of such columns as text, made where they are asked for: first one by one, then, where more are
/// wanted than a look at a table's beginning takes, all at once. Not for several threads at once.
class TypedCells {
 public:
  explicit TypedCells(TypedColumn column) : column_(std::move(column)) {}
  const TypedColumn& column() const { return column_; }
  std::string_view cell(std::size_t row) const;

 private:
  TypedColumn column_;
  mutable std::unordered_map<std::size_t, std::string> few_ = {};  // views of them stay valid
  mutable std::string all_ = {};
  mutable std::vector<std::size_t> ends_ = {};
};

}  // namespace ingot::data
