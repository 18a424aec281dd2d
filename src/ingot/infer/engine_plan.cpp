// What each sequence does in a step.
#include <algorithm>
#include <exception>
#include <functional>
#include <iterator>
#include <limits>

#include <fmt/format.h>

#include "ingot/base/log.h"
#include "ingot/infer/drafter.h"
#include "ingot/infer/engine.h"
#include "ingot/infer/ngram.h"

namespace ingot::infer {
namespace {

constexpr std::int64_t kInvariantRows = 16;  // of a matmul, whose bits do not depend on one another
constexpr std::int64_t kScoredTokens = 64;   // of prompts in a step, whose logits are there at once

// The draft tokens that leave a sequence within the context of training, where its angles depend on that.
std::int64_t room_before_rope_changes(const LanguageConfig& config, std::int64_t length) {
  const std::int64_t original = config.rope_scaling.original_max_position_embeddings;
  const bool changes = config.rope_scaling.type == "longrope" && length <= original;
  return changes ? original - length : std::numeric_limits<std::int64_t>::max();
}

}  // namespace

// LongRoPE rotates a sequence that outgrows the context of training by other angles, all of it: it is read
// again, as transformers does. Rows of another sequence may have either.
void Engine::reread_where_rope_changes(Sequence& s) const {
  const RopeScaling& rope = model_.config.rope_scaling;
  if (rope.type != "longrope") return;
  const bool is_long = static_cast<std::int64_t>(s.tokens_.size()) > rope.original_max_position_embeddings;
  if (s.cached() > 0 && s.long_rope_ != is_long) s.slot_->cache.truncate(0);
  s.long_rope_ = is_long;
}

// Draft tokens beyond the last token wanted, or beyond the context, would be thrown away.
std::int64_t Engine::room_for_draft(const Sequence& s) const {
  if (model_.config.keeps_matrices()) return 0;  // rejected draft tokens could not be taken back
  const auto made = static_cast<std::int64_t>(s.result_.tokens.size());
  return std::min({s.request_.speculate, s.request_.max_tokens - made - 1, context_ - s.cached() - 1,
                   room_before_rope_changes(model_.config, static_cast<std::int64_t>(s.tokens_.size()))});
}

Engine::Turn Engine::decode_turn(Sequence& s) const {
  Turn turn{.sequence = &s, .input = {s.tokens_.back()}, .samples = true};
  if (drafter_ == nullptr) turn.add_draft(ngram_draft(s.tokens_, room_for_draft(s)));
  return turn;
}

// The draft model drafts for all sequences at once.
void Engine::draft(std::vector<Turn>& turns) {
  if (drafter_ == nullptr) return;
  std::vector<Drafter::Sequence> sequences;
  std::vector<Turn*> of;
  for (Turn& turn : turns) {
    Sequence& s = *turn.sequence;
    const std::int64_t room = s.pending() == 1 ? room_for_draft(s) : 0;
    if (room <= 0) continue;
    sequences.push_back({.tokens = s.tokens_, .count = room, .slot = &s.draft_slot_});
    of.push_back(&turn);
  }
  if (sequences.empty()) return;
  try {
    drafter_->draft(sequences);
  } catch (const std::exception& error) {  // drafts make it faster; the answer is the same without
    log(LogLevel::warn, "ingot::infer",
        fmt::format("the draft model drafts nothing in this step: {}", error.what()));
    return;
  }
  for (std::size_t i = 0; i < sequences.size(); ++i) of[i]->add_draft(sequences[i].draft);
}

// Sequences that decode come first; prompts share what is left of the chunk, by priority and in the order of
// their admission.
std::vector<Engine::Turn> Engine::plan() {
  std::vector<Turn> turns;
  // Scalings of RoPE that depend on the length of the sequence need tables of their own.
  const bool alone = model_.config.rope_scaling.depends_on_length();
  for (const auto& s : active_) reread_where_rope_changes(*s);
  for (const auto& s : active_) {
    if (s->pending() == 1 && !(alone && !turns.empty())) turns.push_back(decode_turn(*s));
  }
  std::int64_t left = options_.chunk;
  // Batch-invariant pieces are whole chunks, whatever is asked of them.
  std::int64_t scored = options_.batch_invariant ? options_.chunk : kScoredTokens;
  std::vector<std::shared_ptr<Sequence>> by_priority = active_;
  std::ranges::stable_sort(by_priority, {}, [](const auto& s) { return s->request_.priority; });
  for (const auto& s : by_priority) {
    if (s->pending() == 1 || (alone && !turns.empty())) continue;
    const std::int64_t count = piece_of_prompt(*s, scores(*s) ? std::min(left, scored) : left);
    if (count == 0) continue;
    if (scores(*s) && !options_.batch_invariant) scored -= count;
    const auto first = s->tokens_.begin() + s->cached();
    turns.push_back({.sequence = s.get(),
                     .input = {first, first + count},
                     .samples = count == s->pending(),
                     .scores = scores(*s)});
    left -= count;
  }
  return turns;
}

// Whether tokens of its prompt are to be read whose successors' logprobs are asked for.
bool Engine::scores(const Sequence& s) {
  return s.request_.prompt_logprobs >= 0 && s.result_.prompt_logprobs.size() + 1 < s.request_.prompt.size();
}

// How much of a prompt is read where so many tokens are left in the step.
std::int64_t Engine::piece_of_prompt(const Sequence& s, std::int64_t left) const {
  if (!options_.batch_invariant) return std::min(s.pending(), left);
  const std::int64_t piece = std::min(s.pending(), options_.chunk - s.cached() % options_.chunk);
  return piece <= left ? piece : 0;
}

// Those of one adapter stand together in a pass, or have passes of their own.
std::vector<std::vector<Engine::Turn>> Engine::passes(std::vector<Turn> turns) const {
  std::vector<std::vector<Turn>> passes;
  const auto adapter_of = [](const Turn& turn) {
    const AdapterHandle& adapter = turn.sequence->request_.held_adapter;
    return adapter == nullptr ? 0 : adapter->number;
  };
  if (options_.adapters != nullptr) std::ranges::stable_sort(turns, std::less<>{}, adapter_of);
  if (options_.adapters == nullptr || (options_.adapters->mixes() && !options_.batch_invariant)) {
    if (!turns.empty()) add_passes(std::move(turns), passes);
    return passes;
  }
  for (auto first = turns.begin(); first != turns.end();) {
    const auto last = std::find_if(first, turns.end(),
                                   [&](const Turn& turn) { return adapter_of(turn) != adapter_of(*first); });
    add_passes({std::make_move_iterator(first), std::make_move_iterator(last)}, passes);
    first = last;
  }
  return passes;
}

// All in one pass; or, batch-invariant, sequences that are being written so many together that none changes
// another, and pieces of prompts alone.
void Engine::add_passes(std::vector<Turn> turns, std::vector<std::vector<Turn>>& passes) const {
  if (!options_.batch_invariant) {
    passes.push_back(std::move(turns));
    return;
  }
  std::int64_t rows = kInvariantRows;  // of the last pass
  for (Turn& turn : turns) {
    const auto count = static_cast<std::int64_t>(turn.input.size());
    const bool prompt = !turn.decodes();
    if (prompt || rows + count > kInvariantRows) {
      passes.emplace_back();
      rows = 0;
    }
    rows += prompt ? kInvariantRows : count;
    passes.back().push_back(std::move(turn));
  }
}

}  // namespace ingot::infer
