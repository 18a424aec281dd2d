#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ingot/infer/prompt_store.h"
#include "ingot/models/language/kv_cache.h"

namespace ingot::infer {

struct KvPoolOptions {
  DType dtype = DType::f32;
  Device device = kCpu;
  std::int64_t budget = 0;  ///< tokens of all caches together, idle ones included; 0: no limit
  /// Tokens of idle caches that are kept for prompts that begin alike: with a budget what running requests
  /// leave of it, at most so many.
  std::int64_t idle = 0;
  std::int64_t context = 0;    ///< tokens of a cache at most
  std::int64_t chunk = 512;    ///< tokens that a cache grows by at most before grow() is called again
  std::int64_t alignment = 1;  ///< beginnings are reused in multiples of so many tokens
  PromptStoreOptions store{};  ///< beginnings on disk, for those that are not in memory
};

/// The keys and values of one request, and the tokens that they are of.
struct KvSlot {
  KvCache cache;
  /// While a request has the slot: its prompt. Afterwards the tokens in the cache.
  std::vector<std::int32_t> tokens;
  std::string adapter{};  ///< by which keys and values were made: no other may use them
  bool running = true;
  std::int64_t promised = 0;  // tokens of its prompt, for which memory is taken as they are read
  std::uint64_t used = 0;     // when, as a count of uses
};

struct KvPoolStats {
  std::int64_t budget = 0;         ///< tokens; 0: no limit
  std::int64_t running = 0;        ///< capacity in tokens of caches of running requests, states counted
  std::int64_t held = 0;           ///< tokens that are in these
  std::int64_t idle = 0;           ///< capacity of idle caches besides
  std::int64_t shared = 0;         ///< tokens of blocks that several caches hold; elsewhere each counts once
  std::int64_t queries = 0;        ///< prompt tokens that were looked for
  std::int64_t hits = 0;           ///< and found
  std::int64_t disk_hits = 0;      ///< those of them that came from the disk
  std::int64_t evictions = 0;      ///< idle caches that had to go
  std::int64_t running_slots = 0;  ///< caches of running requests
};

/// Memory for the keys and values of many requests, within a budget. What a finished request leaves stays
/// for later prompts that begin alike (prefix caching), until its memory is wanted; the least recently used
/// goes first. Every request has a cache of its own in contiguous address space. On the CPU memory is taken
/// and given back by blocks of pages, so that capacity is what tokens take, rounded up to a block, and caches
/// that begin alike hold the same blocks, by reference count: a sequence that writes into one has a copy
/// first (KvPages). Blocks that layers with a sliding window have left behind are given back when memory is
/// wanted, or at once where nothing is kept for later prompts; what is kept then serves prompts that go on
/// near its end. Elsewhere a common beginning is copied, and caches that are full move into larger ones. Not
/// for use by several threads at once.
class KvPool {
 public:
  static constexpr std::int64_t kAll = std::numeric_limits<std::int64_t>::max();

  KvPool(const LanguageConfig& config, const KvPoolOptions& options);

  /// A cache which holds the longest beginning of `prompt` that is known, but never all of it: the last
  /// token's logits are wanted; `reusable` tokens at most. Null: there is no memory now for so many tokens as
  /// `expected`. Memory for the whole prompt is the slot's: taken here or, where it is taken by pages, by
  /// grow(), which others leave enough for.
  std::shared_ptr<KvSlot> acquire(std::span<const std::int32_t> prompt, std::int64_t expected,
                                  const std::string& adapter, std::int64_t reusable = kAll);
  /// Grows a slot by `need` tokens; false: there is no memory now.
  bool grow(KvSlot& slot, std::int64_t need);
  /// Gives a slot back; `tokens` are those of its request.
  void release(const std::shared_ptr<KvSlot>& slot, std::span<const std::int32_t> tokens);
  /// Whether a running request is reading a longer beginning of this prompt than is known by now, so that
  /// it pays to wait. `reusable` is acquire()'s: who may use no more of it than is known waits for nothing.
  bool worth_waiting(std::span<const std::int32_t> prompt, const std::string& adapter,
                     std::int64_t reusable = kAll) const;

  KvPoolStats stats() const;

  /// Tokens whose keys and values take as much memory as the states of layers without attention, which each
  /// request has besides.
  static std::int64_t state_tokens(const LanguageConfig& config, DType dtype);

 private:
  struct Match {
    std::shared_ptr<KvSlot> slot;
    std::int64_t tokens = 0;
  };
  Match find(std::span<const std::int32_t> prompt, const std::string& adapter,
             std::int64_t reusable = kAll) const;
  void load(KvSlot& slot, std::span<const std::int32_t> prompt, std::int64_t reusable);
  std::int64_t whole_pages(std::int64_t tokens) const;
  std::shared_ptr<KvSlot> take_over(const Match& match, std::int64_t capacity, std::int64_t expected);
  std::shared_ptr<KvSlot> make_slot(const Match& match, std::int64_t capacity, std::int64_t expected);
  std::int64_t promised_bytes(const KvSlot& slot) const;
  bool fits(std::int64_t bytes) const;
  bool make_room(std::int64_t bytes, const KvSlot* keep);
  bool free_oldest(const KvSlot* keep, bool idle_alone);
  std::int64_t tokens_of(std::int64_t bytes) const { return (bytes + unit_ - 1) / unit_; }
  std::int64_t cost(std::int64_t tokens) const;
  struct Room {
    std::int64_t capacity = 0, held = 0;  // bytes
  };
  struct Rooms {
    Room running, idle;
    std::int64_t shared = 0;  // bytes
  };
  Rooms rooms() const;
  std::int64_t unshared(const Match& match, std::int64_t expected) const;

  const LanguageConfig config_;
  KvPoolOptions options_;
  std::vector<std::shared_ptr<KvSlot>> slots_;
  std::unique_ptr<PromptStore> store_;  // null: none
  std::int64_t page_ = 0;               // tokens; 0: memory is not taken by pages
  std::int64_t state_ = 0;              // bytes of state_tokens()
  std::int64_t unit_ = 1;               // bytes of a token; 1 where none has any
  KvCache like_;                        // an empty cache, which tells what tokens take
  bool drops_ = false;                  // blocks that windows have left behind
  std::uint64_t uses_ = 0;
  KvPoolStats counts_;  // queries, hits and evictions
};

}  // namespace ingot::infer
