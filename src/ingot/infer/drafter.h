#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ingot/infer/kv_pool.h"
#include "ingot/models/language/decoder.h"

namespace ingot::infer {

class DecodeGraph;

/// Drafts tokens of sequences by greedy decoding with a smaller model (draft model), for all of them in one
/// batch. It has a KV cache of its own, and reuses keys and values of sequences that begin alike.
class Drafter {
 public:
  /// `model` has to outlive the drafter, and is where `vocab_size` tokens are known. InvalidConfig for a
  /// model that cannot draft.
  Drafter(const LanguageModel& model, std::int64_t vocab_size, std::int64_t chunk, bool capture);
  ~Drafter();

  /// A sequence and how many tokens are to be drafted, which are put in `draft`. `slot` is the sequence's
  /// own, null at first.
  struct Sequence {
    std::span<const std::int32_t> tokens;
    std::int64_t count = 0;
    std::shared_ptr<KvSlot>* slot = nullptr;
    std::vector<std::int32_t> draft{};
  };
  void draft(std::vector<Sequence>& sequences);
  /// Of a sequence that has ended, or waits.
  void release(std::shared_ptr<KvSlot>& slot, std::span<const std::int32_t> tokens);

  /// Bytes of a token's keys and values.
  static std::size_t token_bytes(const LanguageModel& model);

 private:
  struct Piece {
    Sequence* sequence;
    std::vector<std::int32_t> tokens;
  };
  bool can_draft(const Sequence& sequence) const;
  void prepare(Sequence& sequence);
  void read(std::vector<Sequence>& sequences);
  void draft_token(std::vector<Piece>& pieces);
  std::vector<std::int32_t> argmax(std::span<const Piece> pieces);

  const LanguageModel& model_;
  std::int64_t vocab_size_, chunk_;
  KvPool pool_;
  std::unique_ptr<DecodeGraph> captured_;  // null: none
};

}  // namespace ingot::infer
