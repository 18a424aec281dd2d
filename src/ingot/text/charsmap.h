#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ingot::text {

/// SentencePiece's precompiled_charsmap: a double-array trie (Darts) from character sequences to their
/// replacements (google/sentencepiece, normalizer.cc).
class Charsmap {
 public:
  /// `bytes`: u32 size of the trie in bytes, the trie's u32 units, then the replacements with a zero after
  /// each. Throws InvalidConfig with `where` when that does not hold.
  Charsmap(std::string_view bytes, const std::string& where);

  /// Applies the map cluster by cluster, in the way of the `tokenizers` library.
  void apply(std::string& text) const;

 private:
  /// The replacement of the shortest prefix of `text` that has one; null: none has.
  const char* find(std::string_view text, std::size_t& length) const;

  std::vector<std::uint32_t> units_;
  std::string replacements_;
};

/// Decodes base64 (RFC 4648); false when `text` is none.
bool decode_base64(std::string_view text, std::string& out);
std::string encode_base64(std::string_view bytes);

}  // namespace ingot::text
