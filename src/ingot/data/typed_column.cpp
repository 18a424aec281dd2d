#include "ingot/data/typed_column.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <limits>

#include <fmt/format.h>

namespace ingot::data {
namespace {

constexpr std::int64_t kDay = 86400;

std::int64_t floor_div(std::int64_t a, std::int64_t b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

std::string_view between(const std::string& text, const std::vector<std::size_t>& ends, std::size_t row) {
  const std::size_t begin = row == 0 ? 0 : ends[row - 1];
  return std::string_view(text).substr(begin, ends[row] - begin);
}

std::string real_cell(double value, bool single) {
  if (std::isnan(value)) return "";
  return single ? fmt::format("{}", static_cast<float>(value)) : fmt::format("{}", value);
}

// "Z", "+02:00".
std::string offset_cell(std::int64_t offset) {
  if (offset == 0) return "Z";
  const std::int64_t minutes = std::abs(offset) / 60;
  return fmt::format("{}{:02}:{:02}", offset < 0 ? '-' : '+', minutes / 60, minutes % 60);
}

// By the clock of its offset.
std::string moment_cell(const TypedColumn& column, std::size_t row) {
  using namespace std::chrono;
  const std::int64_t value = column.wholes[row], offset = column.offsets.empty() ? 0 : column.offsets[row];
  const std::int64_t whole = floor_div(value, column.units), local = whole + offset;
  const std::int64_t day = floor_div(local, kDay), second = local - day * kDay;
  constexpr std::int64_t kFarthest = 3'650'000;  // days: a year of more digits is none of the calendar's
  if (std::abs(day) > kFarthest) return fmt::format("{} seconds since 1970", whole);
  const year_month_day date{sys_days(std::chrono::days(day))};
  std::string cell = fmt::format("{:04}-{:02}-{:02}", static_cast<int>(date.year()),
                                 static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()));
  if (column.days) return cell;
  cell += fmt::format(" {:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60);
  if (column.has_fraction(row)) {
    const double fraction =
        static_cast<double>(value - whole * column.units) / static_cast<double>(column.units);
    cell += fmt::format("{:.9f}", fraction).substr(1);
    cell.resize(cell.find_last_not_of('0') + 1);
  }
  if (!column.offsets.empty()) cell += offset_cell(offset);
  return cell;
}

}  // namespace

std::size_t TypedColumn::rows() const {
  return kind == Kind::text ? ends.size() : kind == Kind::real ? reals.size() : wholes.size();
}

bool TypedColumn::is_missing(std::size_t row) const {
  if (kind == Kind::real) return std::isnan(reals[row]);
  return row < missing.size() && missing[row];
}

double TypedColumn::number(std::size_t row) const {
  if (kind == Kind::real) return reals[row];
  return is_missing(row) ? std::numeric_limits<double>::quiet_NaN() : static_cast<double>(wholes[row]);
}

std::int64_t TypedColumn::seconds(std::size_t row) const {
  const std::int64_t value = wholes[row], whole = floor_div(value, units);
  const std::int64_t rest = value - whole * units;
  return whole + (rest >= units - rest ? 1 : 0);
}

std::string TypedColumn::cell(std::size_t row) const {
  if (kind == Kind::text) return std::string(between(text, ends, row));
  if (is_missing(row)) return "";
  if (kind == Kind::real) return real_cell(reals[row], single);
  if (kind == Kind::truth) return wholes[row] != 0 ? "true" : "false";
  return kind == Kind::whole ? fmt::format("{}", wholes[row]) : moment_cell(*this, row);
}

void TypedColumn::add_text(std::string_view cell) {
  while (!cell.empty() && (cell.front() == ' ' || cell.front() == '\t')) cell.remove_prefix(1);
  while (!cell.empty() && (cell.back() == ' ' || cell.back() == '\t')) cell.remove_suffix(1);
  text += cell;
  ends.push_back(text.size());
}

void TypedColumn::add_missing() {
  if (kind == Kind::text) return add_text("");
  if (kind == Kind::real) return reals.push_back(std::numeric_limits<double>::quiet_NaN());
  missing.resize(wholes.size());
  missing.push_back(true);
  wholes.push_back(0);
}

void TypedColumn::settle() {
  if (!missing.empty()) missing.resize(wholes.size());
  if (kind != Kind::moment) return;
  const std::int64_t day = units * kDay;
  days = offsets.empty() && std::ranges::all_of(wholes, [day](std::int64_t v) { return v % day == 0; });
}

std::string_view TypedCells::cell(std::size_t row) const {
  constexpr std::size_t kFew = 4096;
  if (column_.kind == TypedColumn::Kind::text) return between(column_.text, column_.ends, row);
  if (!ends_.empty()) return between(all_, ends_, row);
  if (few_.size() < kFew) {
    const auto [at, is_new] = few_.try_emplace(row);
    if (is_new) at->second = column_.cell(row);
    return at->second;
  }
  ends_.reserve(column_.rows());
  for (std::size_t i = 0; i < column_.rows(); ++i) {
    all_ += column_.cell(i);
    ends_.push_back(all_.size());
  }
  return between(all_, ends_, row);
}

}  // namespace ingot::data
