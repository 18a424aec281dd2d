#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ingot/core/transfer.h"
#include "ingot/core/work_cache.h"
#include "ingot/models/language/decoder.h"

namespace ingot::infer {

/// Forward passes of texts that are being written, one token (or a few guesses) each: the same work step
/// after step, on the same caches, which a device that captures work repeats at the cost of one launch. What
/// changes between them, tokens and lengths, the device reads from its memory.
class CapturedSteps {
 public:
  explicit CapturedSteps(const LanguageModel& model);
  ~CapturedSteps();
  CapturedSteps(const CapturedSteps&) = delete;
  CapturedSteps& operator=(const CapturedSteps&) = delete;

  /// Whether these segments, all of whose tokens are wanted, make a step that is worth it: few tokens of
  /// each, on a device that captures, by a model whose work waits for nothing.
  bool takes(std::span<const CacheSegment> segments) const;

  /// The logits f32 [sequence, vocab] of `tokens`, which stand one segment after the other, on the device;
  /// valid until the next run. Every cache grows by its segment's tokens and needs room for them.
  const Tensor& run(std::span<const std::int32_t> tokens, std::span<const CacheSegment> segments);
  /// The logits of the last run on the host, valid until the next one.
  const Tensor& on_host();

 private:
  struct Step;  // what one recording reads and leaves behind

  Step& step_of(const std::string& key, std::span<const CacheSegment> segments, std::int64_t tokens);

  const LanguageModel& model_;
  bool possible_;
  WorkCache work_;
  std::vector<std::uint64_t> memories_;  // of the caches that recordings read
  std::map<std::string, std::unique_ptr<Step>> steps_;
  Step* last_ = nullptr;  // that ran
};

}  // namespace ingot::infer
