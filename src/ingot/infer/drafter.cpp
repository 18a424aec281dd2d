#include "ingot/infer/drafter.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/base/scope.h"
#include "ingot/core/backend.h"
#include "ingot/infer/decode_graph.h"
#include "ingot/infer/engine.h"
#include "ingot/infer/sampler.h"
#include "ingot/models/language/context.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/view.h"

namespace ingot::infer {
namespace {

constexpr std::int64_t kLastTokens =
    8;  // of a sequence: all of them become logits, so that the step is the same

}  // namespace

Drafter::Drafter(const LanguageModel& model, std::int64_t vocab_size, std::int64_t chunk, bool capture)
    : model_(model),
      vocab_size_(std::min(vocab_size, model.config.vocab_size)),
      chunk_(chunk),
      pool_(model.config, {.dtype = default_kv_cache(model),
                           .device = model.device(),
                           .idle = context_length(model.config),
                           .context = context_length(model.config)}) {
  INGOT_CHECK(
      !model.config.rope_scaling.depends_on_length(),
      InvalidConfig("draft_model", fmt::format("has RoPE that depends on the length of the sequence ({}); "
                                               "take a model without",
                                               model.config.rope_scaling.type)));
  INGOT_CHECK(!model.config.keeps_matrices(),
              InvalidConfig("draft_model", fmt::format("keeps states ('{}') that take rejected tokens "
                                                       "not back; take a model without",
                                                       model.config.model_type)));
  if (capture && backend(model.device()).capabilities().graph_capture)
    captured_ = std::make_unique<DecodeGraph>(model);
}

Drafter::~Drafter() = default;

std::size_t Drafter::token_bytes(const LanguageModel& model) {
  return KvCache(model.config, 1, default_kv_cache(model)).nbytes();
}

bool Drafter::can_draft(const Sequence& sequence) const {
  const auto known = [this](std::int32_t id) { return id < vocab_size_; };
  return sequence.count > 0 &&
         std::ssize(sequence.tokens) + sequence.count <= context_length(model_.config) &&
         std::ranges::all_of(sequence.tokens, known);
}

// Capacity, and a cache that ends before the last token: rejected draft tokens leave it.
void Drafter::prepare(Sequence& sequence) {
  const std::int64_t length = std::ssize(sequence.tokens), need = length + sequence.count;
  std::shared_ptr<KvSlot>& slot = *sequence.slot;
  if (slot == nullptr) slot = pool_.acquire(sequence.tokens, need, {});
  pool_.grow(*slot, need);
  slot->cache.truncate(std::min(slot->cache.length(), length - 1));
}

// Reads all of the sequences but their last tokens, a chunk at a time.
void Drafter::read(std::vector<Sequence>& sequences) {
  while (true) {
    std::vector<std::int32_t> tokens;
    std::vector<CacheSegment> segments;
    for (Sequence& sequence : sequences) {
      const std::int64_t behind = std::ssize(sequence.tokens) - (*sequence.slot)->cache.length();
      const std::int64_t count = std::min(behind - kLastTokens, chunk_ - std::ssize(tokens));
      if (count <= 0) continue;
      const auto first = sequence.tokens.begin() + (*sequence.slot)->cache.length();
      tokens.insert(tokens.end(), first, first + count);
      segments.push_back({.cache = &(*sequence.slot)->cache, .tokens = count, .unwanted = count});
    }
    if (tokens.empty()) return;
    model_.hidden(Tensor::from(tokens, {1, std::ssize(tokens)}, model_.device()), segments);
  }
}

// The most probable token behind each piece.
std::vector<std::int32_t> Drafter::argmax(std::span<const Piece> pieces) {
  std::vector<std::int32_t> tokens, ends;
  std::vector<CacheSegment> segments;
  for (const Piece& piece : pieces) {
    tokens.insert(tokens.end(), piece.tokens.begin(), piece.tokens.end());
    segments.push_back({.cache = &(*piece.sequence->slot)->cache, .tokens = std::ssize(piece.tokens)});
    ends.push_back(static_cast<std::int32_t>(tokens.size()) - 1);
  }
  Tensor logits;
  if (captured_ != nullptr && captured_->takes(segments)) {
    logits = captured_->run(tokens, segments);
  } else {
    const Tensor ids = Tensor::from(tokens, {1, std::ssize(tokens)}, model_.device());
    const Tensor hidden = model_.hidden(ids, segments);
    logits = to(model_.logits(reshape(hidden, {std::ssize(tokens), hidden.dim(2)})), DType::f32);
  }
  // Rows of the vocabulary that only the draft model has cannot be drafted.
  const std::vector<std::int32_t> all = argmax_tokens(contiguous(narrow(logits, 1, 0, vocab_size_)));
  std::vector<std::int32_t> drafted;
  drafted.reserve(ends.size());
  for (const std::int32_t end : ends) drafted.push_back(all[static_cast<std::size_t>(end)]);
  return drafted;
}

// One token more for each sequence; those that have enough leave.
void Drafter::draft_token(std::vector<Piece>& pieces) {
  const std::vector<std::int32_t> drafted = argmax(pieces);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (drafted[i] >= 0) pieces[i].sequence->draft.push_back(drafted[i]);
    pieces[i].tokens = {drafted[i]};
  }
  std::erase_if(pieces, [](const Piece& piece) {
    return piece.tokens.front() < 0 || std::ssize(piece.sequence->draft) == piece.sequence->count;
  });
}

void Drafter::draft(std::vector<Sequence>& sequences) {
  const Scope scope(ScopeKind::work, "draft");
  const NoGrad no_grad;
  std::vector<Sequence> able;
  std::vector<Sequence*> of;
  for (Sequence& sequence : sequences) {
    if (!can_draft(sequence)) continue;
    prepare(sequence);
    able.push_back(sequence);
    of.push_back(&sequence);
  }
  read(able);
  std::vector<Piece> pieces;
  for (Sequence& sequence : able) {
    const auto first = sequence.tokens.begin() + (*sequence.slot)->cache.length();
    pieces.push_back({.sequence = &sequence, .tokens = {first, sequence.tokens.end()}});
  }
  while (!pieces.empty()) draft_token(pieces);
  for (std::size_t i = 0; i < able.size(); ++i) of[i]->draft = std::move(able[i].draft);
}

void Drafter::release(std::shared_ptr<KvSlot>& slot, std::span<const std::int32_t> tokens) {
  if (slot == nullptr) return;
  // Behind the sequence are rejected draft tokens.
  slot->cache.truncate(std::min(slot->cache.length(), std::ssize(tokens) - 1));
  pool_.release(slot, tokens);
  slot.reset();
}

}  // namespace ingot::infer
