#include "ingot/data/arrow/schema.h"

#include <array>

#include <fmt/format.h>

#include "ingot/data/text_file.h"

namespace ingot::data::arrow {
namespace {

using Kind = Field::Kind;
using parquet::Meaning;
using parquet::Physical;

constexpr int kDeepest = 64;

// Numbers of the union Type of Schema.fbs.
enum class Type : std::uint8_t {
  none,
  null,
  integer,
  real,
  binary,
  utf8,
  boolean,
  decimal,
  date,
  time,
  timestamp,
  interval,
  list,
  structure,
  any_of,
  fixed_binary,
  fixed_list,
  map,
  duration,
  large_binary,
  large_utf8,
  large_list,
};

constexpr std::array<std::int64_t, 4> kTicks{1, 1000, 1'000'000, 1'000'000'000};

std::int64_t ticks_of(std::int16_t unit, const Location& location) {
  if (unit < 0 || unit > 3) location.fail(fmt::format("has a unit of time {}, which is not known", unit));
  return kTicks[static_cast<std::size_t>(unit)];
}

unsigned width_of(std::int32_t bits, const Location& location) {
  if (bits != 8 && bits != 16 && bits != 32 && bits != 64)
    location.fail(fmt::format("has integers of {} bits, which are not read", bits));
  return static_cast<unsigned>(bits);
}

void read_integer(Field& field, const Table& type, const Location& location) {
  field.bits = width_of(type.number(0, std::int32_t{0}), location);
  const bool is_signed = type.number(1, std::uint8_t{0}) != 0;
  field.element = {.physical = Physical::int64, .meaning = is_signed ? Meaning::plain : Meaning::natural};
}

void read_real(Field& field, const Table& type, const Location& location) {
  const auto precision = type.number(0, std::int16_t{0});
  if (precision < 0 || precision > 2)
    location.fail(fmt::format("has floats of precision {}, which is not known", precision));
  field.bits = 16U << static_cast<unsigned>(precision);
  field.element = {.physical = precision == 0   ? Physical::fixed
                               : precision == 1 ? Physical::float32
                                                : Physical::float64,
                   .meaning = precision == 0 ? Meaning::half : Meaning::plain};
}

void read_decimal(Field& field, const Table& type, const Location& location) {
  const auto bits = type.number(2, std::int32_t{128}), scale = type.number(1, std::int32_t{0});
  if (bits != 32 && bits != 64 && bits != 128 && bits != 256)
    location.fail(fmt::format("has decimals of {} bits", bits));
  if (scale < 0 || scale > 76)
    location.fail(fmt::format("has decimals of scale {}, which are not read", scale));
  field.bits = static_cast<unsigned>(bits);
  field.element = {.physical = Physical::fixed, .meaning = Meaning::decimal, .scale = scale};
}

void read_time(Field& field, Type type, const Table& about, const Location& location) {
  constexpr std::int16_t kMillisecond = 1;
  field.bits = 64;
  field.element.physical = Physical::int64;
  switch (type) {
    case Type::date: {
      const bool days = about.number(0, kMillisecond) == 0;
      field.bits = days ? 32 : 64;
      field.element.meaning = days ? Meaning::date : Meaning::moment;
      field.element.ticks = 1000;
      return;
    }
    case Type::time:
      field.bits = width_of(about.number(1, std::int32_t{32}), location);
      field.element.meaning = Meaning::clock;
      break;
    case Type::timestamp:
      field.element.meaning = Meaning::moment;
      field.element.utc = !about.text(1).empty();
      field.element.ticks = ticks_of(about.number(0, std::int16_t{0}), location);
      return;
    default:  // a duration counts its ticks
      return;
  }
  field.element.ticks = ticks_of(about.number(0, kMillisecond), location);
}

// Bytes of one width.
void read_fixed_bytes(Field& field, const Table& type, const Location& location) {
  const auto size = type.number(0, std::int32_t{0});
  if (size < 0 || size > 1 << 24) location.fail(fmt::format("has values of {} bytes", size));
  field.bits = static_cast<unsigned>(size) * 8;
  field.element.physical = Physical::fixed;
}

// Several parents could name one table, and a few bytes so stand for any number of columns.
struct Limits {
  int depth = 0;
  std::size_t* columns_left;
};

Field read_field(const Table& table, const Location& above, Limits limits);

void read_children(Field& field, const Table& table, const Location& location, Limits limits) {
  if (limits.depth > kDeepest) location.fail(fmt::format("is nested more than {} deep", kDeepest));
  const std::size_t count = table.count(5);
  field.children.reserve(count);
  for (std::size_t i = 0; i < count; ++i)
    field.children.push_back(read_field(table.item(5, i), location, {limits.depth + 1, limits.columns_left}));
  const bool one = field.kind == Kind::list || field.kind == Kind::fixed_list || field.kind == Kind::map;
  if (one && count != 1) location.fail(fmt::format("is a list of {} kinds of items; expected 1", count));
  const bool pairs = field.kind != Kind::map ||
                     (field.children[0].kind == Kind::structure && field.children[0].children.size() == 2);
  if (!pairs) location.fail("is a map whose entries are not pairs");
}

void read_type(Field& field, const Table& table, const Location& location) {
  const auto type = static_cast<Type>(table.number(2, std::uint8_t{0}));
  const Table about = table.table(3);
  field.kind = Kind::fixed;
  switch (type) {
    case Type::null:
      field.kind = Kind::null;
      return;
    case Type::integer:
      return read_integer(field, about, location);
    case Type::real:
      return read_real(field, about, location);
    case Type::boolean:
      field.bits = 1;
      field.element.physical = Physical::boolean;
      return;
    case Type::decimal:
      return read_decimal(field, about, location);
    case Type::date:
    case Type::time:
    case Type::timestamp:
    case Type::duration:
      return read_time(field, type, about, location);
    case Type::fixed_binary:
      return read_fixed_bytes(field, about, location);
    case Type::binary:
    case Type::utf8:
    case Type::large_binary:
    case Type::large_utf8: {
      const bool text = type == Type::utf8 || type == Type::large_utf8;
      field.kind = Kind::strings;
      field.wide = type == Type::large_binary || type == Type::large_utf8;
      field.element = {.physical = Physical::bytes, .meaning = text ? Meaning::text : Meaning::plain};
      return;
    }
    case Type::list:
    case Type::large_list:
      field.kind = Kind::list;
      field.wide = type == Type::large_list;
      return;
    case Type::fixed_list:
      field.kind = Kind::fixed_list;
      field.size = about.number(0, std::int32_t{0});
      if (field.size < 0) location.fail(fmt::format("has lists of {} items", field.size));
      return;
    case Type::structure:
      field.kind = Kind::structure;
      return;
    case Type::map:
      field.kind = Kind::map;
      return;
    default:
      location.fail(
          "is of a type that is not read: a union, an interval, a view or run-end encoded; save it "
          "as Parquet");
  }
}

Field read_field(const Table& table, const Location& above, Limits limits) {
  if (*limits.columns_left == 0)
    above.fail("has more columns than its schema has room for; the file is damaged");
  --*limits.columns_left;
  Field field{.name = std::string(table.text(0))};
  Location location = above;
  if (find_invalid_utf8(field.name) != std::string::npos)
    location.fail("has a column whose name is not UTF-8");
  location.column += (location.column.empty() ? "" : ".") + field.name;
  read_type(field, table, location);
  read_children(field, table, location, limits);
  if (!table.has(4)) return field;
  const Table dictionary = table.table(4);
  field.dictionary = dictionary.number(0, std::int64_t{0});
  if (!dictionary.has(1)) return field;
  const Table index = dictionary.table(1);
  field.index_bits = width_of(index.number(0, std::int32_t{0}), location);
  field.index_signed = index.number(1, std::uint8_t{0}) != 0;
  return field;
}

}  // namespace

Field read_schema(const Table& schema, const Location& location) {
  if (schema.number(0, std::int16_t{0}) != 0) location.fail("is of a big-endian machine, which is not read");
  Field root{.name = "", .kind = Kind::structure};
  const std::size_t count = schema.count(1);
  constexpr std::size_t kLeastBytes = 16;  // of the table of a column
  std::size_t columns_left = schema.buffer_size() / kLeastBytes;
  root.children.reserve(count);
  for (std::size_t i = 0; i < count; ++i)
    root.children.push_back(read_field(schema.item(1, i), location, {0, &columns_left}));
  return root;
}

}  // namespace ingot::data::arrow
