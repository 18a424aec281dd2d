#include "ingot/data/arrow/flatbuffer.h"

namespace ingot::data::arrow {

Table::Table(std::string_view buffer, std::size_t position, const Location& location)
    : buffer_(buffer), position_(position), location_(&location) {}

Table Table::root(std::string_view buffer, const Location& location) {
  const Table start(buffer, 0, location);
  return {buffer, start.follow(0), location};
}

void Table::fail() const { location_->fail("has metadata that lead out of themselves; the file is damaged"); }

std::string_view Table::range(std::size_t from, std::size_t size) const {
  if (from > buffer_.size() || size > buffer_.size() - from) fail();
  return buffer_.substr(from, size);
}

std::size_t Table::at(int field) const {
  const auto back = static_cast<std::int64_t>(read<std::int32_t>(position_));
  const std::int64_t fields = static_cast<std::int64_t>(position_) - back;
  if (fields < 0) fail();
  const auto begin = static_cast<std::size_t>(fields);
  const std::size_t entry = 4 + 2 * static_cast<std::size_t>(field);
  if (entry + 2 > read<std::uint16_t>(begin)) return 0;
  const auto offset = read<std::uint16_t>(begin + entry);
  return offset == 0 ? 0 : position_ + offset;
}

std::string_view Table::text(int field) const {
  const std::size_t place = at(field);
  if (place == 0) return {};
  const std::size_t begin = follow(place);
  return range(begin + 4, read<std::uint32_t>(begin));
}

Table Table::table(int field) const {
  const std::size_t place = at(field);
  if (place == 0) fail();
  return {buffer_, follow(place), *location_};
}

std::size_t Table::count(int field, std::size_t size) const {
  const std::size_t place = at(field);
  if (place == 0) return 0;
  const std::size_t begin = follow(place);
  const std::size_t items = read<std::uint32_t>(begin);
  if (items > buffer_.size() / size) fail();
  static_cast<void>(range(begin + 4, items * size));
  return items;
}

Table Table::item(int field, std::size_t index) const {
  return {buffer_, follow(follow(at(field)) + 4 + 4 * index), *location_};
}

std::string_view Table::bytes(int field, std::size_t index, std::size_t size) const {
  return range(follow(at(field)) + 4 + index * size, size);
}

}  // namespace ingot::data::arrow
