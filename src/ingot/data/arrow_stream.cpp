#include "ingot/data/arrow_stream.h"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "ingot/data/arrow/c_interface.h"

namespace ingot::data::arrow {
namespace {

// What its owner gave, released with it.
template <class T>
struct Owned {
  T value{};
  Owned() = default;
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  ~Owned() {
    if (value.release != nullptr) value.release(&value);
  }
};

// How a column's values lie in memory.
struct Type {
  enum class Layout : std::uint8_t { nothing, bits, whole, natural, real, decimal, strings, views, clock };
  Layout layout = Layout::nothing;
  unsigned bytes = 0;                                // of a value, or of an offset of strings
  TypedColumn::Kind kind = TypedColumn::Kind::text;  // what it becomes
  std::int64_t units = 1;                            // of moments and clocks: so many a second
  std::int64_t factor = 1;                           // of days: seconds in them
  int scale = 0;                                     // of decimals
  std::string zone = {};
};

std::int64_t units_of(char letter) {
  switch (letter) {
    case 's':
      return 1;
    case 'm':
      return 1000;
    case 'u':
      return 1'000'000;
    default:
      return 1'000'000'000;
  }
}

std::optional<Type> decimal_type(std::string_view format) {  // "d:19,2" or "d:19,2,64"
  const std::size_t comma = format.find(','), second = format.find(',', comma + 1);
  if (comma == std::string_view::npos) return std::nullopt;
  const int bits =
      second == std::string_view::npos ? 128 : std::atoi(std::string(format.substr(second + 1)).c_str());
  if (bits != 32 && bits != 64 && bits != 128) return std::nullopt;
  return Type{.layout = Type::Layout::decimal,
              .bytes = static_cast<unsigned>(bits / 8),
              .kind = TypedColumn::Kind::real,
              .scale = std::atoi(std::string(format.substr(comma + 1)).c_str())};
}

std::optional<Type> temporal_type(std::string_view format) {
  using Layout = Type::Layout;
  using Kind = TypedColumn::Kind;
  if (format == "tdD")
    return Type{.layout = Layout::whole, .bytes = 4, .kind = Kind::moment, .factor = 86400};
  if (format == "tdm") return Type{.layout = Layout::whole, .bytes = 8, .kind = Kind::moment, .units = 1000};
  if (format.size() == 3 && format.starts_with("tt")) {
    const bool small = format[2] == 's' || format[2] == 'm';
    return Type{.layout = Layout::clock, .bytes = small ? 4U : 8U, .units = units_of(format[2])};
  }
  if (format.size() >= 4 && format.starts_with("ts") && format[3] == ':') {
    return Type{.layout = Layout::whole,
                .bytes = 8,
                .kind = Kind::moment,
                .units = units_of(format[2]),
                .zone = std::string(format.substr(4))};
  }
  return std::nullopt;
}

std::optional<Type> type_of(std::string_view format) {
  using Layout = Type::Layout;
  using Kind = TypedColumn::Kind;
  if (format.starts_with("d:")) return decimal_type(format);
  if (format.starts_with("t")) return temporal_type(format);
  constexpr std::string_view kWholes = "cCsSiIlL";
  if (format.size() == 1) {
    if (const std::size_t at = kWholes.find(format[0]); at != std::string_view::npos)
      return Type{.layout = at % 2 == 0 ? Layout::whole : Layout::natural,
                  .bytes = 1U << (at / 2),
                  .kind = Kind::whole};
  }
  if (format == "n") return Type{};
  if (format == "b") return Type{.layout = Layout::bits, .kind = Kind::truth};
  if (format == "f") return Type{.layout = Layout::real, .bytes = 4, .kind = Kind::real};
  if (format == "g") return Type{.layout = Layout::real, .bytes = 8, .kind = Kind::real};
  if (format == "u" || format == "z") return Type{.layout = Layout::strings, .bytes = 4};
  if (format == "U" || format == "Z") return Type{.layout = Layout::strings, .bytes = 8};
  if (format == "vu" || format == "vz") return Type{.layout = Layout::views};
  return std::nullopt;
}

template <class T>
T at(const void* buffer, std::int64_t index) {
  T value;
  std::memcpy(&value, static_cast<const char*>(buffer) + index * static_cast<std::int64_t>(sizeof(T)),
              sizeof(T));
  return value;
}

bool bit_at(const void* buffer, std::int64_t index) {
  return (static_cast<const std::uint8_t*>(buffer)[index / 8] >> (index % 8) & 1) != 0;
}

std::int64_t whole_at(const void* buffer, std::int64_t index, unsigned bytes, bool natural) {
  switch (bytes) {
    case 1:
      return natural ? std::int64_t{at<std::uint8_t>(buffer, index)} : at<std::int8_t>(buffer, index);
    case 2:
      return natural ? std::int64_t{at<std::uint16_t>(buffer, index)} : at<std::int16_t>(buffer, index);
    case 4:
      return natural ? std::int64_t{at<std::uint32_t>(buffer, index)} : at<std::int32_t>(buffer, index);
    default:
      return at<std::int64_t>(buffer, index);
  }
}

double decimal_at(const void* buffer, std::int64_t index, const Type& type) {
  const double unit = std::pow(10.0, type.scale);
  if (type.bytes < 16) return static_cast<double>(whole_at(buffer, index, type.bytes, false)) / unit;
  const auto low = at<std::uint64_t>(buffer, 2 * index);
  const auto high = at<std::int64_t>(buffer, 2 * index + 1);
  const bool fits = high == (static_cast<std::int64_t>(low) < 0 ? -1 : 0);
  if (fits) return static_cast<double>(static_cast<std::int64_t>(low)) / unit;
  return (std::ldexp(static_cast<double>(high), 64) + static_cast<double>(low)) / unit;
}

std::string_view string_at(const CArray& array, std::int64_t index, const Type& type) {
  const auto* bytes = static_cast<const char*>(array.buffers[2]);
  const std::int64_t begin = whole_at(array.buffers[1], index, type.bytes, false);
  const std::int64_t end = whole_at(array.buffers[1], index + 1, type.bytes, false);
  return end <= begin ? std::string_view()
                      : std::string_view(bytes + begin, static_cast<std::size_t>(end - begin));
}

// Up to twelve bytes stand in the view itself.
std::string_view view_at(const CArray& array, std::int64_t index) {
  constexpr std::int64_t kView = 16, kInside = 12;
  const char* view = static_cast<const char*>(array.buffers[1]) + index * kView;
  const auto size = at<std::int32_t>(view, 0);
  if (size <= 0) return {};
  const char* bytes = view + 4;
  if (size > kInside)
    bytes =
        static_cast<const char*>(array.buffers[2 + at<std::int32_t>(view, 2)]) + at<std::int32_t>(view, 3);
  return {bytes, static_cast<std::size_t>(size)};
}

std::string clock_text(std::int64_t value, std::int64_t units) {
  const std::int64_t second = value / units;
  return fmt::format("{:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60);
}

// "+02:00" and "UTC", which need no table of zones.
std::optional<std::int64_t> fixed_offset(const std::string& zone) {
  if (zone == "UTC" || zone == "Z" || zone == "Etc/UTC" || zone == "GMT") return 0;
  const bool is_one = zone.size() == 6 && (zone[0] == '+' || zone[0] == '-') && zone[3] == ':';
  if (!is_one) return std::nullopt;
  const std::int64_t size =
      std::atoi(zone.substr(1, 2).c_str()) * 3600 + std::atoi(zone.substr(4).c_str()) * 60;
  return zone[0] == '-' ? -size : size;
}

// Adds one column's values of every batch.
class ColumnReader {
 public:
  ColumnReader(const CSchema& schema, const std::string& table, const ZoneOffset& offset_at)
      : offset_at_(offset_at) {
    column_.name = schema.name == nullptr ? "" : schema.name;
    const std::string_view format = schema.format == nullptr ? "" : schema.format;
    const auto type = type_of(format);
    if (!type) fail(table, format);
    type_ = *type;
    if (schema.dictionary != nullptr) {
      words_ = std::make_unique<ColumnReader>(*schema.dictionary, table, offset_at);
      return;  // its cells are text
    }
    column_.kind = type_.kind;
    column_.units = type_.units;
    column_.single = type_.layout == Type::Layout::real && type_.bytes == 4;
    if (!type_.zone.empty() && !fixed_offset(type_.zone) && !offset_at_) {
      throw DataError(table, 0, column_.name,
                      fmt::format("has moments of zone '{}', whose summer time is not known here; convert "
                                  "them to UTC or to text",
                                  type_.zone));
    }
  }

  void add(const CArray& array, std::int64_t first, std::int64_t rows) {
    if (words_ != nullptr && array.dictionary != nullptr) {
      words_->column_ =
          TypedColumn{.name = column_.name, .kind = words_->column_.kind, .units = words_->column_.units};
      words_->add(*array.dictionary, 0, array.dictionary->length);
    }
    const void* validity = array.n_buffers > 0 ? array.buffers[0] : nullptr;
    if ((validity == nullptr || array.null_count == 0) && add_as_they_are(array, array.offset + first, rows))
      return;
    for (std::int64_t i = 0; i < rows; ++i) {
      const std::int64_t index = array.offset + first + i;
      const bool missing = type_.layout == Type::Layout::nothing ||
                           (array.null_count != 0 && validity != nullptr && !bit_at(validity, index));
      if (missing) {
        column_.add_missing();
        if (!type_.zone.empty() && words_ == nullptr) column_.offsets.push_back(0);
      } else {
        add_value(array, index);
      }
    }
  }
  TypedColumn take() { return std::move(column_); }

 private:
  [[noreturn]] void fail(const std::string& table, std::string_view format) const {
    const bool nested = format.starts_with('+');
    throw DataError(
        table, 0, column_.name,
        fmt::format("holds {} (Arrow's type '{}'); expected numbers, text, dates or times: select "
                    "the columns that belong to the table",
                    nested ? "lists or structs" : "values of a type that no table has", format));
  }

  // 64-bit numbers and moments of which none is missing, the most of a long table.
  bool add_as_they_are(const CArray& array, std::int64_t first, std::int64_t rows) {
    const bool whole = type_.layout == Type::Layout::whole && type_.zone.empty();
    if (words_ != nullptr || type_.bytes != 8 || !(whole || type_.layout == Type::Layout::real)) return false;
    const auto add_all = [&]<class T>(std::vector<T>& values) {
      const std::size_t before = values.size();
      values.resize(before + static_cast<std::size_t>(rows));
      if (rows > 0)
        std::memcpy(values.data() + before, static_cast<const T*>(array.buffers[1]) + first,
                    static_cast<std::size_t>(rows) * sizeof(T));
    };
    if (whole)
      add_all(column_.wholes);
    else
      add_all(column_.reals);
    return true;
  }
  void add_value(const CArray& array, std::int64_t index) {
    using Layout = Type::Layout;
    if (words_ != nullptr) {
      const std::int64_t word =
          whole_at(array.buffers[1], index, type_.bytes, type_.layout == Layout::natural);
      return column_.add_text(words_->column_.cell(static_cast<std::size_t>(word)));
    }
    switch (type_.layout) {
      case Layout::nothing:
        return;
      case Layout::bits:
        return column_.add_whole(bit_at(array.buffers[1], index) ? 1 : 0);
      case Layout::real:
        return column_.reals.push_back(type_.bytes == 4 ? at<float>(array.buffers[1], index)
                                                        : at<double>(array.buffers[1], index));
      case Layout::decimal:
        return column_.reals.push_back(decimal_at(array.buffers[1], index, type_));
      case Layout::strings:
        return column_.add_text(string_at(array, index, type_));
      case Layout::views:
        return column_.add_text(view_at(array, index));
      case Layout::clock:
        return column_.add_text(
            clock_text(whole_at(array.buffers[1], index, type_.bytes, false), type_.units));
      case Layout::natural:
        return add_natural(array, index);
      case Layout::whole:
        break;
    }
    column_.add_whole(whole_at(array.buffers[1], index, type_.bytes, false) * type_.factor);
    if (!type_.zone.empty()) column_.offsets.push_back(offset_of(column_.seconds(column_.wholes.size() - 1)));
  }

  // Ids may be any 64 bits. Those above 2^63 make their column one of text, as a double would not tell them
  // apart.
  void add_natural(const CArray& array, std::int64_t index) {
    const std::int64_t value = whole_at(array.buffers[1], index, type_.bytes, true);
    if (value < 0 && column_.kind == TypedColumn::Kind::whole) column_ = as_text(column_);
    if (column_.kind == TypedColumn::Kind::text)
      return column_.add_text(fmt::format("{}", static_cast<std::uint64_t>(value)));
    column_.add_whole(value);
  }
  static TypedColumn as_text(const TypedColumn& column) {
    TypedColumn text{.name = column.name};
    for (std::size_t row = 0; row < column.rows(); ++row) text.add_text(column.cell(row));
    return text;
  }

  // Clocks change on quarters of an hour, so that one is asked about once.
  std::int32_t offset_of(std::int64_t seconds) {
    constexpr std::int64_t kQuarter = 900;
    if (const auto fixed = fixed_offset(type_.zone)) return static_cast<std::int32_t>(*fixed);
    const std::int64_t quarter = seconds / kQuarter - (seconds % kQuarter < 0 ? 1 : 0);
    if (!known_ || known_->first != quarter)
      known_ = {quarter, static_cast<std::int32_t>(offset_at_(type_.zone, quarter * kQuarter))};
    return known_->second;
  }

  TypedColumn column_;
  Type type_;
  std::unique_ptr<ColumnReader> words_;  // of a dictionary
  const ZoneOffset& offset_at_;
  std::optional<std::pair<std::int64_t, std::int32_t>> known_;
};

// What the stream's owner says of an error.
void check(CStream& stream, int code, const std::string& name) {
  if (code == 0) return;
  const char* why = stream.get_last_error == nullptr ? nullptr : stream.get_last_error(&stream);
  throw DataError(
      name, 0, "",
      fmt::format("cannot be read as Arrow's columns: {}", why == nullptr ? std::strerror(code) : why));
}

}  // namespace
}  // namespace ingot::data::arrow

namespace ingot::data {

CsvTable read_arrow_stream(void* stream, const std::string& name, const ZoneOffset& offset_at) {
  using namespace arrow;
  auto& in = *static_cast<CStream*>(stream);
  INGOT_CHECK(in.release != nullptr, DataError(name, 0, "", "is a stream that somebody has read already"));
  Owned<CSchema> schema;
  arrow::check(in, in.get_schema(&in, &schema.value), name);
  const std::string_view format = schema.value.format == nullptr ? "" : schema.value.format;
  INGOT_CHECK(format == "+s", DataError(name, 0, "", "is one column; expected a table of several"));
  std::vector<ColumnReader> readers;
  readers.reserve(static_cast<std::size_t>(schema.value.n_children));
  for (std::int64_t c = 0; c < schema.value.n_children; ++c)
    readers.emplace_back(*schema.value.children[c], name, offset_at);
  while (true) {
    Owned<CArray> batch;
    arrow::check(in, in.get_next(&in, &batch.value), name);
    if (batch.value.release == nullptr) break;
    INGOT_CHECK(batch.value.n_children == schema.value.n_children,
                DataError(name, 0, "", "has a batch of other columns than its schema's"));
    for (std::size_t c = 0; c < readers.size(); ++c)
      readers[c].add(*batch.value.children[c], batch.value.offset, batch.value.length);
  }
  std::vector<TypedColumn> columns;
  columns.reserve(readers.size());
  for (ColumnReader& reader : readers) columns.push_back(reader.take());
  return CsvTable::of_columns(std::move(columns), name);
}

}  // namespace ingot::data
