#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ingot/infer/kv_pool.h"
#include "ingot/models/language/decoder.h"

namespace ingot::infer {

class CapturedSteps;

/// Guesses how texts go on by the most probable tokens of a smaller model (draft model), for all of them
/// together. It has keys and values of its own, and reuses those of texts that begin alike.
class Drafter {
 public:
  /// `model` has to outlive the drafter, and is where `vocab_size` tokens are known. InvalidConfig for a
  /// model that cannot draft.
  Drafter(const LanguageModel& model, std::int64_t vocab_size, std::int64_t chunk, bool capture);
  ~Drafter();

  /// A text and how many tokens are to be guessed; the guesses are put in `draft`. `slot` is the text's own,
  /// null at first.
  struct Text {
    std::span<const std::int32_t> tokens;
    std::int64_t count = 0;
    std::shared_ptr<KvSlot>* slot = nullptr;
    std::vector<std::int32_t> draft{};
  };
  void draft(std::vector<Text>& texts);
  /// Of a text that has ended, or waits.
  void release(std::shared_ptr<KvSlot>& slot, std::span<const std::int32_t> tokens);

  /// Bytes of a token's keys and values.
  static std::size_t token_bytes(const LanguageModel& model);

 private:
  struct Piece {
    Text* text;
    std::vector<std::int32_t> tokens;
  };
  bool can_draft(const Text& text) const;
  void prepare(Text& text);
  void read(std::vector<Text>& texts);
  void guess(std::vector<Piece>& pieces);
  std::vector<std::int32_t> likeliest(std::span<const Piece> pieces);

  const LanguageModel& model_;
  std::int64_t vocab_size_, chunk_;
  KvPool pool_;
  std::unique_ptr<CapturedSteps> captured_;  // null: none
};

}  // namespace ingot::infer
