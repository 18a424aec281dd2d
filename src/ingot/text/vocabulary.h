#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ingot::text {

/// Tokens and their ids. Ids need not be dense. Token texts lie in one block of memory and the table of
/// hashes is flat, so that a vocabulary of 128k entries is built in milliseconds.
class Vocabulary {
 public:
  enum class Added { yes, token_exists, id_exists };

  void reserve(std::size_t tokens, std::size_t bytes);
  /// Adds one entry; leaves the vocabulary as it was unless the answer is `yes`. `id` must not be negative.
  Added add(std::string_view token, std::int32_t id);

  /// Adds an id for a token that another id has already; find() gives the new one from now on.
  void add_again(std::string_view token, std::int32_t id);

  /// The id of `token`, -1 when there is none.
  std::int32_t find(std::string_view token) const;
  bool contains(std::int32_t id) const;
  /// The text of `id`; empty when there is none. Valid until the next add().
  std::string_view token(std::int32_t id) const;

  /// Number of entries.
  std::int32_t size() const { return size_; }
  /// Largest id plus one.
  std::int32_t id_limit() const { return static_cast<std::int32_t>(spans_.size()); }

 private:
  struct Span {
    std::uint32_t begin = 0;
    std::uint32_t length = kAbsent;
  };
  static constexpr std::uint32_t kAbsent = 0xFFFFFFFF;
  struct Slot {
    std::uint32_t tag = 0;  // upper half of the hash
    std::int32_t id = -1;
  };

  /// The text of an id that is there.
  std::string_view text_of(std::int32_t id) const {
    const Span span = spans_[static_cast<std::size_t>(id)];
    return {texts_.data() + span.begin, span.length};
  }
  void rehash(std::size_t slots);
  void set_text(std::string_view token, std::int32_t id);

  std::string texts_;
  std::vector<Span> spans_;  // by id
  std::vector<Slot> slots_;  // open addressing, a power of two
  std::int32_t size_ = 0;
};

}  // namespace ingot::text
