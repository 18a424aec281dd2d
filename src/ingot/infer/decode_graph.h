#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ingot/models/language/decoder.h"

namespace ingot::infer {

/// Forward passes of sequences that are being written, one token (or a few drafted ones) each: the same work
/// step after step, which a device that captures work repeats at the cost of one launch. What changes between
/// them, tokens, lengths and, where launches are shared, the caches, the device reads from its memory. So
/// recordings of several sequences stay while caches grow and requests come and go: they are of a number of
/// sequences, up to which spare ones fill up.
class DecodeGraph {
 public:
  explicit DecodeGraph(const LanguageModel& model);
  ~DecodeGraph();
  DecodeGraph(const DecodeGraph&) = delete;
  DecodeGraph& operator=(const DecodeGraph&) = delete;

  /// Whether any steps can be captured: the device does, and the model's work waits for nothing.
  bool possible() const { return possible_; }
  /// Whether these segments, all of whose tokens are wanted, make a step that is worth it: few tokens of
  /// each, where steps can be captured.
  bool takes(std::span<const CacheSegment> segments) const;

  /// The logits f32 [tokens, vocab] of `tokens`, which stand one segment after the other, on the device;
  /// valid until the next run. Every cache grows by its segment's tokens and needs capacity for them.
  Tensor run(std::span<const std::int32_t> tokens, std::span<const CacheSegment> segments);
  /// The logits of the last run on the host, valid until the next one.
  Tensor on_host();

 private:
  struct Step;  // what one recording reads and leaves behind
  struct Recordings;

  std::vector<CacheSegment> filled_up(std::span<const CacheSegment> segments);
  void repeat(Recordings& from, const std::string& key, std::span<const std::int32_t> tokens,
              std::span<const CacheSegment> segments, std::int64_t capacity);

  const LanguageModel& model_;
  bool possible_;
  std::unique_ptr<Recordings> of_any_caches_, of_these_caches_;
  std::vector<std::uint64_t> memories_;  // of the caches that of_these_caches_ reads
  std::unique_ptr<KvCache> spare_;       // of the sequences that fill up
  Step* last_ = nullptr;                 // that ran
  std::int64_t tokens_ = 0;              // of the last run, fillers not counted
};

}  // namespace ingot::infer
