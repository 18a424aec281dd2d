#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "ingot/core/dtype.h"

namespace ingot {

/// What happens to a KV cache beside the passes of its model, for who keeps the same cache elsewhere.
struct CacheEvent {
  enum class Kind : std::uint8_t { made, freed, reserved, shrunk, dropped, copied, truncated };
  Kind kind = Kind::made;
  std::uint64_t cache = 0, from = 0;  ///< numbers of caches; copied: from which
  std::int64_t tokens = 0;            ///< capacity, or tokens that are copied or kept
  std::int64_t most = 0;              ///< made: tokens that address space is reserved for; 0: not paged
  DType dtype = DType::f32;           ///< made
};

/// Is told of the events of all caches that are attached to it, in their order.
class CacheJournal {
 public:
  virtual ~CacheJournal() = default;
  virtual void note(const CacheEvent& event) noexcept = 0;
};

/// A cache's place in a journal; it tells when the cache is gone.
class JournalEntry {
 public:
  JournalEntry() = default;
  JournalEntry(JournalEntry&& other) noexcept
      : journal_(std::move(other.journal_)), number_(std::exchange(other.number_, 0)) {}
  JournalEntry& operator=(JournalEntry&& other) noexcept {
    std::swap(journal_, other.journal_);
    std::swap(number_, other.number_);
    return *this;
  }
  ~JournalEntry() { note({.kind = CacheEvent::Kind::freed}); }

  void attach(std::shared_ptr<CacheJournal> journal, std::uint64_t number) {
    journal_ = std::move(journal);
    number_ = number;
  }
  const std::shared_ptr<CacheJournal>& journal() const { return journal_; }
  std::uint64_t number() const { return number_; }
  void note(CacheEvent event) const noexcept {
    event.cache = number_;
    if (journal_ != nullptr) journal_->note(event);
  }

 private:
  std::shared_ptr<CacheJournal> journal_;  // null: nobody is told
  std::uint64_t number_ = 0;
};

}  // namespace ingot
