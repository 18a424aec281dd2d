#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ingot/base/parallel.h"
#include "ingot/infer/client_shares.h"
#include "ingot/infer/kv_pool.h"
#include "ingot/infer/sampler.h"
#include "ingot/infer/thinking_budget.h"
#include "ingot/models/adapter/adapter_bank.h"
#include "ingot/models/language/decoder.h"

namespace ingot::grammar {
class Grammar;
}

namespace ingot::infer {

class DecodeGraph;
class Drafter;
class GrammarGuide;

struct EngineOptions {
  std::optional<DType> kv_cache{};  ///< f32, bf16, f16 or i8; default_kv_cache() where not said
  std::int64_t context = 0;         ///< tokens of a sequence at most; 0: the model's max_position_embeddings
  std::int64_t chunk = 512;         ///< prompt tokens that go through the model at once
  /// On a GPU decode steps are captured as CUDA graphs and replayed (DecodeGraph); false: every
  /// kernel is launched by itself.
  bool capture = true;
  std::int64_t max_running = 0;  ///< requests in one step at most, the others wait; 0: no limit
  /// Bytes of keys and values of all requests together, and of the states of layers without attention.
  /// Requests wait for free blocks, and of those that are
  /// running the latest is preempted where earlier ones need its blocks: its tokens are recomputed later.
  /// 0: no limit. Shortens the context where not even one request of that length fits.
  std::size_t kv_memory = 0;
  /// Keeps keys and values of finished requests for prompts that begin alike, as far as the memory is not
  /// wanted; without a limit, as many tokens as idle_contexts have. Where layers keep a state (LFM2), a
  /// prompt goes on where a finished request ended, and not inside it.
  bool prefix_cache = false;
  /// Without kv_memory: so many contexts' tokens of finished requests are kept. A beam search that is not to
  /// read a text twice needs its width.
  std::int64_t idle_contexts = 1;
  /// Keeps them on disk, too, for prompts after a restart; needs prefix_cache. Session fills in what tells
  /// the model and its adapters. Models whose RoPE depends on the length of the sequence store nothing;
  /// those whose layers keep a state are refused.
  PromptStoreOptions prompt_store{};
  /// A smaller model with the same tokens, which drafts tokens (Request::speculate) instead of repetitions;
  /// has to outlive the engine. Its keys and values count in kv_memory.
  const LanguageModel* draft_model = nullptr;
  /// On the CPU a sequence gets the same bits whatever its neighbours are: steps take sequences apart that
  /// would change one another's sums, prompts are read in whole chunks, and beginnings reused by chunks.
  /// Costs more passes over the weights. Does not hold for sequences that gave their memory up.
  bool batch_invariant = false;
  /// The adapters that requests may name (Request::adapter), on this engine's model; null: none. Sequences of
  /// different ones go through the model together, where it allows that (AdapterBank::mixes) and
  /// batch_invariant is off; else one pass after another. No step is captured then.
  std::shared_ptr<AdapterBank> adapters{};

  /// Throws InvalidConfig naming the option.
  void validate(const LanguageConfig& model) const;
};

/// What keys and values are best kept in when nothing else is asked for: f16 beside weights of 16 bits and
/// fewer, which are rounded more coarsely, else f32. On a GPU beside dense weights what these are, as keys
/// and values come in that.
DType default_kv_cache(const LanguageModel& model);

struct TokenLogprob {
  std::int32_t id = 0;
  float logprob = 0;
};

/// What the model thought of a token that was drawn: natural logarithms of probabilities, before penalties,
/// temperature and restrictions.
struct DrawnLogprob {
  float logprob = 0;
  std::vector<TokenLogprob> top{};  ///< the most probable tokens, in order
};

/// The same of a token of the prompt.
struct PromptLogprob {
  DrawnLogprob drawn;
  std::int64_t rank = 1;  ///< 1: no other token was more probable
};

/// A sequence to be continued.
struct Request {
  std::vector<std::int32_t> prompt;  ///< at least one token
  std::int64_t max_tokens = 256;
  SamplingOptions sampling{};
  /// Generation ends when one of these comes; it is not part of the result.
  std::vector<std::int32_t> stop_tokens{};
  /// Draft tokens by the draft model, or from repetitions in the sequence, that are verified in one forward
  /// pass (speculative decoding), at most 7; 0: none. The result is the same, to the last token, with and
  /// without: greedy, and for a seed. Models that scan (Mamba 2) draft nothing: their states cannot go back.
  std::int64_t speculate = 0;
  /// The logprob of each token, with those of so many most probable ones; −1: none.
  std::int64_t logprobs = -1;
  /// Generation::prompt_logprobs, each with those of so many most probable tokens; −1: none. The prompt is
  /// read whole then, without what is cached of it.
  std::int64_t prompt_logprobs = -1;
  /// What the result has to match; null: anything. Stop tokens come only where it is complete, and it ends
  /// there of itself where nothing can follow.
  std::shared_ptr<const grammar::Grammar> grammar{};
  ThinkingBudget thinking{};     ///< how long it may think
  std::string adapter{};         ///< by its name in EngineOptions::adapters; empty: none
  AdapterHandle held_adapter{};  ///< what the name stands for: Engine::hold_adapter() fills it in
  std::int64_t priority = 0;     ///< the smaller goes first
  std::string client{};          ///< whose it is: clients of one priority get as many tokens each
  /// Ends the sequence before the first step from then on.
  std::optional<std::chrono::steady_clock::time_point> deadline{};
  /// Called when it gets memory for the first time: its prompt is read from now on.
  std::function<void()> on_admitted{};
  /// Called with each token as soon as it is drawn; false ends the sequence.
  std::function<bool(std::int32_t)> on_token{};

  void validate(const LanguageConfig& model) const;
};

/// stop_string: told by what turns tokens into text (TextStream). failed: Engine::step threw the reason.
/// grammar_end: the text is complete by its grammar. timeout: Request::deadline.
enum class StopReason : std::uint8_t {
  max_tokens,
  stop_token,
  context_full,
  cancelled,
  stop_string,
  failed,
  grammar_end,
  timeout,
};

struct Generation {
  std::vector<std::int32_t> tokens;            ///< without the prompt
  std::vector<DrawnLogprob> logprobs;          ///< of each token, where the request asks for them
  std::vector<PromptLogprob> prompt_logprobs;  ///< of the prompt's tokens behind its first, where asked for
  StopReason reason = StopReason::max_tokens;
  std::int64_t cached_tokens = 0;  ///< of the prompt, whose keys and values were there already
  double queue_seconds = 0;        ///< until the request was admitted
  double prompt_seconds = 0;       ///< from then until the first token's logits were there
  double decode_seconds = 0;
  std::int32_t stop_token = -1;            ///< the one that ended it; −1: none did
  std::int64_t drafted = 0, accepted = 0;  ///< draft tokens, and those that were accepted
};

/// One sequence that an Engine continues: its tokens and its share of the KV cache. Made by Engine::start.
class Sequence {
 public:
  /// Prompt and continuation.
  std::span<const std::int32_t> tokens() const { return tokens_; }
  bool finished() const { return finished_; }
  /// What has come so far.
  const Generation& result() const { return result_; }
  /// Why it failed; null where it did not.
  const std::exception_ptr& error() const { return error_; }
  ~Sequence();

 private:
  friend class Engine;
  explicit Sequence(Request request);
  std::int64_t cached() const { return slot_ != nullptr ? slot_->cache.length() : 0; }
  std::int64_t pending() const { return static_cast<std::int64_t>(tokens_.size()) - cached(); }
  /// What its keys and values may be used with; empty: the model alone.
  const std::string& adapter_identity() const;
  void finish(StopReason reason);
  bool complete() const;
  std::int32_t draw(std::span<const float> logits);

  Request request_;
  Sampler sampler_;
  std::unique_ptr<GrammarGuide> guide_;    // null: no grammar
  std::optional<ThinkingGuide> thinking_;  // none: no budget
  // Null while it waits. Its cache is always behind tokens_ by the last one or, before that, by what is left
  // of the prompt.
  std::shared_ptr<KvSlot> slot_;
  std::shared_ptr<KvSlot> draft_slot_;  // of the draft model; null: none yet
  ClientShare* share_ = nullptr;
  bool preempted_ = false;
  bool long_rope_ = false;  // the cached keys have the angles of a sequence beyond the context of training
  std::vector<std::int32_t> tokens_;
  Generation result_;
  std::exception_ptr error_;
  bool finished_ = false;
  double clock_ = 0;  // when the phase (queue, prompt, then decoding) began, in seconds
};

/// Of an adapter that requests choose by its name.
struct AdapterStats {
  std::string name;
  std::size_t bytes = 0;                  ///< of its matrices
  std::int64_t running = 0, waiting = 0;  ///< requests
};

struct EngineStats {
  std::int64_t running = 0, waiting = 0;  ///< requests
  std::int64_t preemptions = 0;           ///< requests that gave their memory up for a while, so far
  KvPoolStats cache{};
  std::vector<AdapterStats> adapters{};  ///< in the order of their loading
  std::int64_t most_adapters = 0;        ///< that may be loaded at a time; 0: any number
};

/// Continues sequences with a language model, any number of them together (continuous batching). Every step
/// is one forward pass: a token (or several draft tokens) for each sequence that decodes, and a piece of the
/// prompts that are still being read. Requests are admitted by priority, then so that clients get equal
/// shares, then in the order of their arrival. What a sequence becomes does not depend on the others, on
/// chunk or on the number of threads, as far as the matmuls do not (docs/inference.md). Not for use by
/// several threads at once.
///
///     infer::Engine engine(model);
///     auto a = engine.start({.prompt = ids, .on_token = [](std::int32_t id) { ...; return true; }});
///     engine.run();
///     a->result().tokens;
class Engine {
 public:
  /// `model` has to outlive the engine. Throws InvalidConfig.
  explicit Engine(const LanguageModel& model, const EngineOptions& options = {});
  ~Engine();
  Engine(Engine&&) noexcept;

  const LanguageModel& model() const { return model_; }
  std::int64_t context() const { return context_; }
  std::int64_t vocab_size() const { return model_.config.vocab_size; }
  DType kv_cache() const { return *options_.kv_cache; }
  const std::shared_ptr<AdapterBank>& adapters() const { return options_.adapters; }

  /// Throws InvalidConfig for an option, DimensionMismatch for a prompt that is empty, holds tokens outside
  /// the vocabulary, or is longer than the context. Safe beside everything else.
  void check(const Request& request) const;
  /// check(), and has the request keep the adapter that it names, whatever is unloaded meanwhile. Safe beside
  /// everything else.
  void hold_adapter(Request& request) const;
  /// Puts adapters on the model that were loaded, and takes off those that were unloaded and are in no
  /// sequence's use; step() does so, too.
  void settle_adapters();
  /// Takes a sequence in; throws as check() does.
  std::shared_ptr<Sequence> start(Request request);
  /// Ends a sequence, and frees its memory.
  void cancel(Sequence& sequence);

  /// One forward pass; false when nothing is left to do. Where one sequence fails, as by logits that are not
  /// finite, the step is completed for the others, and the error thrown then.
  bool step();
  /// Steps until all sequences are finished.
  void run();
  /// start() and run().
  Generation generate(Request request);
  EngineStats stats() const;

 private:
  struct Turn {  // what one sequence does in one step
    Sequence* sequence = nullptr;
    std::vector<std::int32_t> input;
    std::int64_t drafted = 0;    // the last of input are draft tokens
    std::int64_t first_row = 0;  // of its logits
    bool samples = false;
    bool scores = false;                // each of input gives logits, for Request::prompt_logprobs
    std::int64_t first_score = 0;       // the row of the first
    std::vector<std::int32_t> drawn{};  // accepted draft tokens, and one more
    std::vector<DrawnLogprob> logprobs{};
    std::exception_ptr error{};
    void add_draft(std::span<const std::int32_t> draft) {
      drafted = std::ssize(draft);
      input.insert(input.end(), draft.begin(), draft.end());
    }
    std::int64_t rows() const {
      if (scores) return std::ssize(input);
      return samples ? 1 + drafted : 0;
    }
    bool decodes() const { return std::ssize(input) == 1 + drafted; }
  };
  void end_overdue();
  void admit();
  bool admit(Sequence& sequence);
  std::int64_t reusable(const Sequence& sequence) const;
  std::deque<std::shared_ptr<Sequence>>::iterator next_waiting();
  void end(Sequence& sequence, StopReason reason);
  void preempt(Sequence& sequence);
  Sequence& last_in_line();
  void release(Sequence& sequence);
  bool grow(Sequence& sequence, std::int64_t tokens);
  void reread_where_rope_changes(Sequence& s) const;
  void make_room(std::vector<Turn>& turns);
  static bool scores(const Sequence& sequence);
  std::vector<Turn> plan();
  Turn decode_turn(Sequence& sequence) const;
  std::int64_t room_for_draft(const Sequence& sequence) const;
  void draft(std::vector<Turn>& turns);
  std::int64_t piece_of_prompt(const Sequence& sequence, std::int64_t left) const;
  std::vector<std::vector<Turn>> passes(std::vector<Turn> turns) const;
  void add_passes(std::vector<Turn> turns, std::vector<std::vector<Turn>>& passes) const;
  void use_adapters(const std::vector<Turn>& turns);
  void run(std::vector<Turn>& turns, std::exception_ptr& error);
  struct Logits {
    Tensor rows;  // f32 [rows, vocab] where the model is, of the sequences that sample
    bool captured = false;
  };
  Logits forward_or_forget(std::vector<Turn>& turns);
  Logits forward(std::vector<Turn>& turns);
  Logits forward(std::span<Turn> turns, std::int64_t first_row);
  void score(const std::vector<Turn>& turns, const Logits& logits) const;
  void draw(std::vector<Turn>& turns, const Logits& logits);
  static void draw(Turn& turn, FunctionRef<std::int32_t(std::int64_t row)> next);
  void accept_drawn(Turn& turn);
  bool accept(Sequence& sequence, std::int32_t token);

  const LanguageModel& model_;
  EngineOptions options_;
  std::int64_t context_;
  KvPool pool_;
  ClientShares shares_;
  std::deque<std::shared_ptr<Sequence>> waiting_;
  std::vector<std::shared_ptr<Sequence>> active_;  // in the order of their admission
  std::int64_t preemptions_ = 0;
  std::unique_ptr<DecodeGraph> captured_;  // null: none
  std::unique_ptr<Drafter> drafter_;       // null: no draft model
};

/// Engine::generate on an engine of its own.
Generation generate(const LanguageModel& model, Request request, const EngineOptions& options = {});

/// "max_tokens", "stop_token", "context_full", "cancelled", "stop_string", "failed", "grammar_end",
/// "timeout".
std::string_view name(StopReason reason);

}  // namespace ingot::infer
