#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

// Files as somebody would make them who wants a program to crash, hang or take the machine's memory. Each is
// a function of its kind and its number alone.

namespace ingot::test {

/// Random choices, and values that are at the edge of something.
class Source {
 public:
  explicit Source(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {  // splitmix64
    std::uint64_t z = state_ += 0x9E3779B97F4A7C15;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
  }
  std::size_t below(std::size_t n) { return n == 0 ? 0 : static_cast<std::size_t>(next() % n); }
  bool one_in(std::size_t n) { return below(n) == 0; }
  template <class List>
  const auto& of(const List& list) {
    return list[below(std::size(list))];
  }
  std::string_view one_of(std::initializer_list<std::string_view> list) {
    return list.begin()[below(list.size())];
  }

  /// Most often small; else near a power of two, where sizes wrap or are cut.
  std::int64_t integer() {
    if (!one_in(3)) return static_cast<std::int64_t>(below(9)) - 1;
    const std::uint64_t power = std::uint64_t{1} << below(64), near = below(3) - 1;
    return static_cast<std::int64_t>((one_in(2) ? power : 0 - power) + near);
  }
  /// Most often what is meant.
  std::uint64_t nearly(std::uint64_t value) {
    return one_in(40) ? static_cast<std::uint64_t>(integer()) : value;
  }
  /// As a number of JSON or YAML, which need not be whole, finite or sane.
  std::string number() {
    if (one_in(6))
      return std::string(one_of({"64.7", "1e308", "-1e-308", "1e999", "0.0", "-0", "NaN", "0x7f", "1_0"}));
    return std::to_string(integer());
  }
  /// A text of odd characters, now and then a long one.
  std::string text() {
    static constexpr std::array<std::string_view, 12> kPieces{
        "a", "\x1b[31m", "\xC3\xA9", "\xF0\x9F\x98\x80", "%s", "{{", "\n", " ", "\xFF", "..", "/", "\\u0000"};
    std::string result;
    for (std::size_t n = one_in(30) ? 3000 : below(8); n > 0; --n) result += of(kPieces);
    return result;
  }

 private:
  std::uint64_t state_;
};

/// The lowest bytes of a number, the lowest first.
inline std::string little(std::uint64_t value, int bytes) {
  std::string out;
  for (; bytes > 0; --bytes, value >>= 8) out += static_cast<char>(value & 255);
  return out;
}

/// The file of this number. `corpus`: good and bad files of the kind, to start from.
std::string hostile_file(const std::string& kind, std::uint64_t number,
                         const std::vector<std::string>& corpus);

// By kind of kinds, each in a file of its own.
std::string mutated_bytes(Source& source, const std::vector<std::string>& corpus);
std::string hostile_json(Source& source, const std::vector<std::string_view>& keys);
std::string hostile_yaml(Source& source);
std::string hostile_template(Source& source);
std::string hostile_pattern(Source& source);
std::string hostile_grammar(Source& source, bool lark);
std::string hostile_graph(Source& source);
std::string hostile_table(Source& source);
std::string hostile_answer(Source& source);
std::string hostile_parquet(Source& source);
std::string hostile_hdf5(Source& source);
std::string hostile_gguf(Source& source);
std::string hostile_npy(Source& source);
std::string hostile_torch(Source& source);
std::string hostile_sentencepiece(Source& source);
std::string hostile_log(Source& source);
std::string hostile_records(Source& source);
std::string hostile_listing(Source& source);
std::string hostile_request(Source& source);
std::string hostile_adapter(Source& source);
std::string hostile_index(Source& source);
std::string hostile_generation_config(Source& source);
std::string hostile_matrix(Source& source);
std::string hostile_checkpoint(Source& source);
std::string hostile_npz(Source& source);
std::string hostile_arrow(Source& source, const std::vector<std::string>& corpus);
std::string hostile_saved_dataset(Source& source);
std::string hostile_study(Source& source);

}  // namespace ingot::test
