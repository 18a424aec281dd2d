#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "ingot/core/tensor.h"
#include "ingot/kernels/attention.h"
#include "ingot/models/language/cache_journal.h"
#include "ingot/models/language/config.h"
#include "ingot/models/language/kv_pages.h"
#include "ingot/models/language/recurrent_state.h"

namespace ingot {

/// Keys and values of the tokens of one sequence that a model has seen, so that the next token costs one row
/// and not the whole sequence. Of latent attention (LanguageConfig::is_latent) one row of each token is both
/// its key and its value. Elements are f32, bf16, f16, or i8 with one scale per token and head. Layers that
/// read the keys of others (LanguageConfig::key_layer) have nothing here. Layers without attention have a
/// state of fixed size instead (LanguageConfig::is_recurrent), which goes back to few of the lengths that the
/// sequence has had: beginning() tells.
class KvCache {
 public:
  /// Memory for `capacity` tokens; reserve() adds more. With `most`, and where the device can, address space
  /// for so many is reserved: the cache then grows where it is, and memory is taken by pages as tokens come.
  /// Throws InvalidConfig for a dtype that is none of the four.
  KvCache(const LanguageConfig& config, std::int64_t capacity, DType dtype, Device device = kCpu,
          std::int64_t most = 0);

  std::int64_t length() const { return length_; }
  std::int64_t capacity() const { return capacity_; }
  DType dtype() const { return dtype_; }
  Device device() const { return device_; }
  std::int64_t layers() const { return static_cast<std::int64_t>(layers_.size()); }
  /// Whether kernels that find caches by entries take the heads of all layers.
  bool takes_entries() const;
  /// Of keys and values, without the state of layers that have none, and without what was dropped.
  std::size_t nbytes() const;
  /// Of these what tokens are in.
  std::size_t used_bytes() const;
  /// Of one token, in all layers.
  std::size_t token_bytes() const { return group_bytes(Group::full) + group_bytes(Group::local); }
  /// Bytes of so many tokens at most, if drop_left_behind() is called whenever `chunk` tokens have come.
  std::size_t bytes_of(std::int64_t tokens, std::int64_t chunk) const;
  /// Whether memory is taken by pages.
  bool is_paged() const { return pages_[0] != nullptr || pages_[1] != nullptr; }
  /// Tokens of whole pages of each head: a block that caches share. Heads of short rows have pages together.
  std::int64_t page_tokens() const;
  /// Tokens that one page more holds: the best unit of capacity.
  std::int64_t capacity_step() const;
  /// A number of its own for the memory that holds the elements now; no two caches of a process ever share
  /// it.
  std::uint64_t memory() const { return memory_; }

  /// From now on the journal is told what happens to this cache, beside append() and advance(): first that
  /// it was made. Nothing is in it. A cache that copies the beginning of one with a journal has it, too.
  void attach(const std::shared_ptr<CacheJournal>& journal);
  const JournalEntry& journal_entry() const { return entry_; }

  /// Memory for `capacity` tokens in all; what is there stays.
  void reserve(std::int64_t capacity);
  /// Gives back what is not needed for so many tokens, where memory is taken by pages; at least those that
  /// are there stay.
  void shrink(std::int64_t capacity);
  /// Gives back the blocks of layers with a sliding window, or chunks, that lie before it, but for kTakenBack
  /// tokens; where memory is taken by pages; none beyond token `most`. Shorter beginnings are known no more
  /// then. False: there were none.
  bool drop_left_behind(std::int64_t most = std::numeric_limits<std::int64_t>::max());
  /// Tokens that may be taken back after drop_left_behind(): rejected drafts, and the end of an answer that
  /// the next prompt of a conversation has otherwise.
  static constexpr std::int64_t kTakenBack = 64;
  /// The longest beginning of up to `tokens` tokens, which are there, that truncate() and copy_beginning()
  /// can give: all of them, or none where the state of a layer, or its window, is known there no more.
  std::int64_t beginning(std::int64_t tokens) const {
    return state_.reaches(tokens) && tokens >= shortest_ ? tokens : 0;
  }
  /// Takes the first `tokens` of another cache of the same model and dtype instead of what is here, which
  /// has capacity for them. beginning() holds for them. Of whole blocks, where memory is taken by pages,
  /// nothing is copied until one of the two writes there.
  void copy_beginning(const KvCache& from, std::int64_t tokens);
  /// Bytes of the first `tokens` that copy_beginning() shares.
  std::size_t shareable(std::int64_t tokens) const;
  /// Blocks of page_tokens() tokens that other caches hold, too.
  struct SharedBlock {
    const void* block = nullptr;
    std::size_t bytes = 0;
    bool operator==(const SharedBlock&) const = default;
  };
  std::vector<SharedBlock> shared_blocks() const;
  /// Host memory for `count` tokens of every layer: contiguous tensors [kv_heads, count, ...].
  std::vector<Tensor> host_memory(std::int64_t count) const;
  /// A copy of `count` tokens behind the first `begin` in such memory.
  std::vector<Tensor> saved(std::int64_t begin, std::int64_t count) const;
  /// Puts the first `count` tokens of what saved() gave of a cache of the same model and dtype behind the
  /// first `begin`, and forgets what was there beyond. It has capacity for them.
  void restore(std::int64_t begin, std::span<const Tensor> saved, std::int64_t count);
  /// Writes keys and values (where they are one, only keys) [new, kv_heads, head_dim] of layer `layer` behind
  /// those that are there; the length grows once all layers have written, through advance(). Throws
  /// DimensionMismatch when the cache is full.
  void append(std::int64_t layer, const Tensor& keys, const Tensor& values);
  /// The same behind the first `start` tokens, an i32 [1] on the device: work that is captured and repeated
  /// finds the offset anew each time. What is beyond the capacity is not written.
  void append_behind(std::int64_t layer, const Tensor& start, const Tensor& keys, const Tensor& values);
  void advance(std::int64_t tokens) {
    state_.advance(length_, tokens);
    length_ += tokens;
  }
  /// Of the layers without attention; advance() and truncate() keep it in step.
  RecurrentState& state() { return state_; }
  /// Forgets all but the first `tokens`; everything where beginning() has none of so many.
  void truncate(std::int64_t tokens);

  /// The first `tokens` keys and values of a layer, [1, tokens, kv_heads, head_dim], with their scales
  /// [1, tokens, kv_heads] where the cache is i8: views, nothing is copied.
  struct Entries {
    Tensor keys, values, key_scale, value_scale;
  };
  Entries entries(std::int64_t layer, std::int64_t tokens) const;
  kernels::CacheEntry entry(std::int64_t layer) const;
  friend void append_to_all(const KvCache& one, std::int64_t layer, const Tensor& entries,
                            const Tensor& starts, const Tensor& keys, const Tensor& values);

 private:
  // Layers whose blocks come and go together: local ones see a window, or a chunk, and leave blocks behind.
  enum class Group : std::uint8_t { full, local };
  // Heads outermost, so that attention reads a head's keys as one stream.
  struct Layer {
    Tensor keys, values;            // [kv_heads, capacity, head_dim]; no values: keys are both
    Tensor key_scale, value_scale;  // [kv_heads, capacity] f32, of an i8 cache
    // What values are read from.
    const Tensor& read() const { return values.defined() ? values : keys; }
    const Tensor& read_scale() const { return values.defined() ? value_scale : key_scale; }
  };
  // Sizes of heads, the same in all layers of a group.
  struct Heads {
    std::int64_t count = 0, size = 0;
  };
  const Heads& heads(Group group) const { return heads_[static_cast<std::size_t>(group)]; }
  bool share_pages(const Heads& heads) const;
  std::size_t page_row_bytes(const Heads& heads) const;
  std::vector<KvPages::Part> parts_of_layer(Group group, bool paged) const;
  std::vector<Tensor*> tensors_of(Layer& layer) const;
  bool make_pages(std::int64_t tokens);
  void make_layers(std::int64_t most);
  std::vector<Tensor> parts() const;
  // A part of parts() with what its memory is of.
  struct PartOfGroup {
    Tensor tensor;
    Group group;
    std::size_t number;  // of the part in the group's pages
  };
  std::vector<PartOfGroup> parts_of_groups() const;
  const std::unique_ptr<KvPages>& pages(Group group) const { return pages_[static_cast<std::size_t>(group)]; }
  std::size_t group_bytes(Group group) const { return group_bytes_[static_cast<std::size_t>(group)]; }
  std::int64_t dropped(Group group) const { return pages(group) != nullptr ? pages(group)->dropped() : 0; }
  // The first token that local layers see from behind so many, and behind how many they see none before it.
  std::int64_t first_seen(std::int64_t length) const;
  std::int64_t first_without(std::int64_t token) const;
  void own_behind(std::int64_t tokens);
  void forget();

  std::vector<Layer> layers_;
  std::vector<bool> holds_;      // which of them hold anything
  std::vector<Group> groups_;    // of each layer
  std::int64_t window_, chunk_;  // of those that slide, and of those with chunks; 0: there are none
  std::array<std::size_t, 2> group_bytes_{};  // of one token in the layers of each group
  RecurrentState state_;
  std::array<Heads, 2> heads_{};  // of each group; count 0: it has no layer here
  bool one_row_;                  // keys are values, too
  DType dtype_;
  Device device_;
  std::int64_t capacity_;
  std::int64_t reserved_ = 0;                      // tokens that the tensors have memory for
  std::array<std::unique_ptr<KvPages>, 2> pages_;  // of each group; null: it has none
  std::int64_t length_ = 0;
  std::int64_t shortest_ = 0;  // beginning but none that local layers have memory for
  std::uint64_t memory_;
  JournalEntry entry_;
};

/// The next tokens of a forward pass that belong to one sequence.
struct CacheSegment {
  KvCache* cache = nullptr;
  std::int64_t tokens = 0;
  std::int64_t unwanted = 0;  ///< the first so many of them are only cached: nobody reads their hidden states
  /// Tokens of the whole sequence, where more of it follows in other passes; 0: what is cached by then. RoPE
  /// scalings that depend on the length ask for it.
  std::int64_t sequence_length = 0;
  std::int64_t wanted() const { return tokens - unwanted; }
};

/// Where the tokens of a forward pass belong, on the device: for passes that are captured and repeated, which
/// find other offsets each time. i32.
struct CacheOffsets {
  Tensor positions;  ///< [1, sequence]: of each token
  Tensor starts;     ///< [segments]: tokens that a segment's cache holds before the pass
  Tensor ends;       ///< [segments]: and after it
  /// Cache entries where all segments go through each layer in one launch: u8 [layers, segments, size]; else
  /// undefined.
  Tensor entries{};
  /// The capacity of the caches, at most; 0: as the segments' have now.
  std::int64_t capacity = 0;
};

/// Whether segments can go through each layer in one launch, by cache entries: there are two and more, all
/// with the same number of tokens, few, and heads of a size that the kernels take.
bool share_launches(std::span<const CacheSegment> segments);
/// Shape of their cache entries.
Shape cache_entries_shape(std::span<const CacheSegment> segments);
/// Writes kernels::CacheEntry of each layer's memory of each segment to `entries`, a tensor of the host. They
/// hold as long as memory() of every cache.
void write_cache_entries(std::span<const CacheSegment> segments, const Tensor& entries);
/// KvCache::append_behind for all segments in one launch: `entries` of the layer, u8 [segments, size];
/// starts: i32 [segments]; keys and values [segments · tokens, kv_heads, head_dim]. `one` is any of the
/// caches.
void append_to_all(const KvCache& one, std::int64_t layer, const Tensor& entries, const Tensor& starts,
                   const Tensor& keys, const Tensor& values);

}  // namespace ingot
