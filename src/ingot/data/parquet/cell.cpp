#include "ingot/data/parquet/cell.h"

#include <chrono>
#include <cmath>
#include <cstring>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/data/parquet/bits.h"
#include "ingot/data/text_file.h"

namespace ingot::data::parquet {
namespace {

constexpr std::int64_t kDay = 86400;

std::int64_t floor_of(std::int64_t a, std::int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }

// "13:00:00", with as many digits of the second as it needs.
std::string clock_text(std::int64_t second, std::int64_t fraction, std::int64_t ticks) {
  std::string text = fmt::format("{:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60);
  if (fraction == 0) return text;
  const int digits = ticks == 1000 ? 3 : ticks == 1'000'000 ? 6 : 9;
  return text + fmt::format(".{:0{}}", fraction, digits);
}

std::string date_text(std::int64_t day, const Location& location) {
  using namespace std::chrono;
  constexpr std::int64_t kFirst = -719162, kLast = 2932896;  // of the years 1 and 9999
  if (day < kFirst || day > kLast)
    location.fail(fmt::format("has a date {} days from 1970, beyond the years 1 to 9999", day));
  const year_month_day date{sys_days(days(day))};
  return fmt::format("{:04}-{:02}-{:02}", static_cast<int>(date.year()), static_cast<unsigned>(date.month()),
                     static_cast<unsigned>(date.day()));
}

// Midnights of no time zone are days, as tables write them.
std::string moment_text(std::int64_t second, std::int64_t fraction, const Element& element,
                        const Location& location) {
  const std::int64_t day = floor_of(second, kDay), rest = second - day * kDay;
  const std::string date = date_text(day, location);
  if (rest == 0 && fraction == 0 && !element.utc) return date;
  return date + ' ' + clock_text(rest, fraction, element.ticks) + (element.utc ? "+00:00" : "");
}

// Spark's and Impala's: nanoseconds of a day, and the day counted from 4713 BC.
std::string int96_text(std::string_view bytes, const Location& location) {
  if (bytes.size() != 12) location.fail("has a moment that is not of 12 bytes; the file is damaged");
  constexpr std::int64_t kJulian1970 = 2440588, kTicks = 1'000'000'000;
  const auto ticks = static_cast<std::int64_t>(bits_at(bytes, 0, 64));
  const auto day =
      static_cast<std::int64_t>(static_cast<std::uint32_t>(bits_at(bytes, 64, 32))) - kJulian1970;
  if (ticks < 0 || ticks >= kDay * kTicks) location.fail("has a moment beyond its day; the file is damaged");
  const Element element{.ticks = kTicks};
  return moment_text(day * kDay + ticks / kTicks, ticks % kTicks, element, location);
}

// Digits of a whole number with a sign, with a point `scale` of them from the end.
std::string with_point(std::string digits, bool negative, std::int32_t scale) {
  const auto locations = static_cast<std::size_t>(scale);
  if (digits.size() <= locations) digits.insert(0, locations + 1 - digits.size(), '0');
  if (locations > 0) digits.insert(digits.size() - locations, 1, '.');
  return negative ? "-" + digits : digits;
}

// Big-endian two's complement of any length: divided by ten for each digit.
std::string decimal_text(std::string_view bytes, std::int32_t scale, const Location& location) {
  if (bytes.size() > 64) location.fail(fmt::format("has a decimal of {} bytes", bytes.size()));
  std::string magnitude(bytes);
  const bool negative = !magnitude.empty() && (static_cast<unsigned char>(magnitude[0]) & 0x80U) != 0;
  unsigned carry = 1;
  for (std::size_t i = magnitude.size(); negative && i-- > 0;) {
    const unsigned sum = (static_cast<unsigned char>(magnitude[i]) ^ 0xFFU) + carry;
    magnitude[i] = static_cast<char>(sum & 0xFFU);
    carry = sum >> 8U;
  }
  std::string digits;
  while (magnitude.find_first_not_of('\0') != std::string::npos || digits.empty()) {
    unsigned rest = 0;
    for (char& c : magnitude) {
      const unsigned part = rest * 256 + static_cast<unsigned char>(c);
      c = static_cast<char>(part / 10);
      rest = part % 10;
    }
    digits.insert(digits.begin(), static_cast<char>('0' + rest));
  }
  return with_point(std::move(digits), negative, scale);
}

std::string decimal_text(std::int64_t value, std::int32_t scale) {
  const auto magnitude =
      value < 0 ? 0 - static_cast<std::uint64_t>(value) : static_cast<std::uint64_t>(value);
  return with_point(fmt::format("{}", magnitude), value < 0, scale);
}

std::string uuid_text(std::string_view bytes) {
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", static_cast<unsigned char>(bytes[i]));
  }
  return text;
}

double half_of(std::string_view bytes, const Location& location) {
  if (bytes.size() != 2)
    location.fail("has a half-precision number that is not of 2 bytes; the file is damaged");
  const auto bits = static_cast<std::uint32_t>(bits_at(bytes, 0, 16));
  const std::uint32_t exponent = bits >> 10U & 31U, fraction = bits & 1023U;
  double value = exponent == 0 ? std::ldexp(fraction, -24)
                               : std::ldexp(fraction + 1024, static_cast<int>(exponent) - 25);
  if (exponent == 31) value = fraction == 0 ? HUGE_VAL : std::nan("");
  return (bits & 0x8000U) != 0 ? -value : value;
}

bool is_real(const Element& element) {
  return element.physical == Physical::float32 || element.physical == Physical::float64 ||
         element.meaning == Meaning::half;
}

double real_of(const Value& value, const Element& element, const Location& location) {
  return element.meaning == Meaning::half ? half_of(value.bytes, location) : value.real;
}

std::uint64_t natural_of(const Value& value, const Element& element) {
  const auto bits = static_cast<std::uint64_t>(value.integer);
  return element.physical == Physical::int32 ? bits & 0xFFFFFFFFU : bits;
}

bool is_plain_integer(const Element& element) {
  return element.meaning == Meaning::plain &&
         (element.physical == Physical::int32 || element.physical == Physical::int64);
}

// Of what is not a number, truth or string.
std::string special_text(const Value& value, const Element& element, const Location& location) {
  switch (element.meaning) {
    case Meaning::date:
      return date_text(value.integer, location);
    case Meaning::clock:
    case Meaning::moment: {
      const std::int64_t second = floor_of(value.integer, element.ticks);
      const std::int64_t rest = value.integer % element.ticks;  // second * ticks may overflow
      const std::int64_t fraction = rest < 0 ? rest + element.ticks : rest;
      if (element.meaning == Meaning::moment) return moment_text(second, fraction, element, location);
      if (second < 0 || second > kDay) location.fail("has a time of day beyond its day; the file is damaged");
      return clock_text(second, fraction, element.ticks);
    }
    case Meaning::decimal:
      if (element.physical == Physical::int32 || element.physical == Physical::int64)
        return decimal_text(value.integer, element.scale);
      return decimal_text(value.bytes, element.scale, location);
    case Meaning::uuid:
      return uuid_text(value.bytes);
    default:
      return element.physical == Physical::int96 ? int96_text(value.bytes, location)
                                                 : std::string(value.bytes);
  }
}

std::string checked_text(std::string text, const Element& element, const Location& location) {
  const std::size_t bad = find_invalid_utf8(text);
  if (element.meaning == Meaning::text && bad != std::string::npos)
    location.fail(fmt::format("has a string whose byte {} is not UTF-8 (0x{:02x})", bad,
                              static_cast<unsigned char>(text[bad])));
  return text;
}

}  // namespace

nlohmann::ordered_json json_of(const Value& value, const Element& element, const Location& location) {
  if (element.physical == Physical::boolean) return value.integer != 0;
  if (element.meaning == Meaning::natural) return natural_of(value, element);
  if (is_plain_integer(element)) return value.integer;
  if (is_real(element)) {
    const double real = real_of(value, element, location);
    return std::isnan(real) ? nlohmann::ordered_json() : nlohmann::ordered_json(real);
  }
  const bool strings = element.physical == Physical::bytes || element.physical == Physical::fixed;
  if (strings && element.meaning == Meaning::plain &&
      find_invalid_utf8(value.bytes) != std::string_view::npos) {
    return nlohmann::ordered_json::binary({value.bytes.begin(), value.bytes.end()});
  }
  return checked_text(special_text(value, element, location), element, location);
}

std::string text_of(const Value& value, const Element& element, const Location& location) {
  if (element.physical == Physical::boolean) return value.integer != 0 ? "true" : "false";
  if (element.meaning == Meaning::natural) return fmt::format("{}", natural_of(value, element));
  if (is_plain_integer(element)) return fmt::format("{}", value.integer);
  if (is_real(element)) {
    const double real = real_of(value, element, location);
    if (std::isnan(real)) return "";
    return element.physical == Physical::float32 ? fmt::format("{}", static_cast<float>(real))
                                                 : fmt::format("{}", real);
  }
  return checked_text(special_text(value, element, location), element, location);
}

bool is_numeric(const Element& element) {
  return element.physical == Physical::boolean || element.meaning == Meaning::natural ||
         is_plain_integer(element) || is_real(element) || element.meaning == Meaning::decimal;
}

bool is_dated(const Element& element) {
  return element.meaning == Meaning::date || element.meaning == Meaning::moment ||
         element.physical == Physical::int96;
}

}  // namespace ingot::data::parquet
