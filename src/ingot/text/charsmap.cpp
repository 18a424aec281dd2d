#include "ingot/text/charsmap.h"

#include <algorithm>
#include <cstring>

#include "ingot/base/error.h"
#include "ingot/base/utf8.h"
#include "ingot/text/replacement.h"
#include "ingot/text/unicode.h"

namespace ingot::text {

namespace {

// A unit of the trie: bits 0-7 the label, 8 whether a value follows, 9 the scale and 10-31 the distance of
// the children. The unit of a value holds it in bits 0-30 with bit 31 set.
bool has_value(std::uint32_t unit) { return ((unit >> 8) & 1) != 0; }
std::uint32_t value(std::uint32_t unit) { return unit & 0x7FFFFFFF; }
std::uint32_t label(std::uint32_t unit) { return unit & 0x800000FF; }
std::uint32_t offset(std::uint32_t unit) { return (unit >> 10) << ((unit & (1U << 9)) >> 6); }

}  // namespace

Charsmap::Charsmap(std::string_view bytes, const std::string& where) {
  std::uint32_t size = 0;
  INGOT_CHECK(bytes.size() >= 4, InvalidConfig(where, "the charsmap is cut short"));
  std::memcpy(&size, bytes.data(), 4);
  INGOT_CHECK(size % 4 == 0 && size > 0 && size <= bytes.size() - 4,
              InvalidConfig(where, "the charsmap's trie of " + std::to_string(size) +
                                       " bytes does not fit into " + std::to_string(bytes.size())));
  units_.resize(size / 4);
  std::memcpy(units_.data(), bytes.data() + 4, size);
  replacements_ = bytes.substr(4 + size);
  INGOT_CHECK(is_valid_utf8(replacements_),
              InvalidConfig(where, "the charsmap's replacements are not UTF-8"));
}

const char* Charsmap::find(std::string_view text, std::size_t& length) const {
  std::uint32_t node = offset(units_[0]);
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte == 0) return nullptr;
    node ^= byte;
    if (node >= units_.size() || label(units_[node]) != byte) return nullptr;
    const std::uint32_t unit = units_[node];
    node ^= offset(unit);
    if (node >= units_.size()) return nullptr;
    if (!has_value(unit)) continue;
    const std::uint32_t at = value(units_[node]);
    if (at >= replacements_.size()) return nullptr;
    const char* found = replacements_.data() + at;
    length = std::min(std::strlen(found), replacements_.size() - at);
    return found;
  }
  return nullptr;
}

void Charsmap::apply(std::string& text) const {
  std::string out;
  out.reserve(text.size());
  std::size_t length = 0;
  for_each_grapheme(text, [&](std::size_t begin, std::size_t end) {
    check_growth(out.size(), text.size());
    const std::string_view cluster = std::string_view(text).substr(begin, end - begin);
    // A short cluster is replaced as a whole when it, or the start of it, has a replacement.
    if (cluster.size() < 6)
      if (const char* found = find(cluster, length); found != nullptr) {
        out.append(found, length);
        return;
      }
    for (std::size_t i = 0; i < cluster.size();) {
      const std::string_view character = cluster.substr(i, utf8_length(cluster[i]));
      i += character.size();
      if (const char* found = find(character, length); found != nullptr)
        out.append(found, length);
      else
        out.append(character);
    }
  });
  text = std::move(out);
}

bool decode_base64(std::string_view text, std::string& out) {
  while (text.ends_with('=')) text.remove_suffix(1);
  std::uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    std::uint32_t digit = 0;
    if (c >= 'A' && c <= 'Z')
      digit = static_cast<std::uint32_t>(c - 'A');
    else if (c >= 'a' && c <= 'z')
      digit = static_cast<std::uint32_t>(c - 'a' + 26);
    else if (c >= '0' && c <= '9')
      digit = static_cast<std::uint32_t>(c - '0' + 52);
    else if (c == '+')
      digit = 62;
    else if (c == '/')
      digit = 63;
    else
      return false;
    bits = (bits << 6) | digit;
    count += 6;
    if (count < 8) continue;
    count -= 8;
    out.push_back(static_cast<char>(static_cast<unsigned char>(bits >> count)));
  }
  return count != 6;
}

std::string encode_base64(std::string_view bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t n = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t bits = 0;
    for (std::size_t k = 0; k < 3; ++k)
      bits = (bits << 8) | (k < n ? static_cast<unsigned char>(bytes[i + k]) : 0U);
    for (std::size_t k = 0; k < 4; ++k) out += k <= n ? kDigits[(bits >> (18 - 6 * k)) & 63] : '=';
  }
  return out;
}

}  // namespace ingot::text
