#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "ingot/infer/engine.h"

namespace ingot::infer {

/// When a beam search ends with `width` texts ended and others still written. no: when the best of these,
/// with the score that it has now, is no better than the worst of those (a heuristic). yes: at once. never:
/// as no, with the best score that it may come to, where length_penalty is positive.
enum class EarlyStopping : std::uint8_t { no, yes, never };

struct BeamOptions {
  std::int64_t width = 1;       ///< texts that are written beside each other, and returned
  double length_penalty = 1.0;  ///< a text's score is its logprob over its number of tokens to this power
  EarlyStopping early_stopping = EarlyStopping::no;

  /// Throws InvalidConfig naming the option.
  void validate() const;
};

/// A text that a beam search has found.
struct BeamText {
  Generation generation;
  double score = 0;
};

/// A search for the most probable continuations of a prompt, as transformers' generate(num_beams=width) has
/// it. It asks for the next token of each text that is still written, and is told what the model thought of
/// it; who runs the requests is another's (beam_search(), BeamJob). Texts that begin alike share the blocks
/// of the prefix cache (EngineOptions::prefix_cache); without it each token reads its text again.
class BeamSearch {
 public:
  /// `request`: what is to be continued, how far, and its stop tokens and min_tokens; temperature and what
  /// restricts the choice mean nothing here. `engine`: which will run it. Throws InvalidConfig for options,
  /// and for what does not go with a beam search.
  BeamSearch(Request request, const BeamOptions& options, const Engine& engine);

  bool begun() const { return length_ > 0; }
  bool finished() const { return finished_; }
  /// One for each text that is still written, of one token each.
  std::vector<Request> requests() const;
  /// What came of them.
  void take(std::span<const Generation> results);
  /// Once it is finished: `width` texts, or fewer where the model has not so many, the best first.
  std::vector<BeamText> texts() const;

 private:
  struct Beam {
    std::vector<std::int32_t> tokens{};  // behind the prompt; with the stop token
    std::vector<DrawnLogprob> logprobs{};
    double sum = 0;    // of the logprobs
    double score = 0;  // once it has ended
    StopReason reason = StopReason::max_tokens;
  };
  struct Candidate {
    std::size_t beam = 0;
    const DrawnLogprob* drawn = nullptr;  // of the beam
    TokenLogprob token{};
    double sum = 0;
  };
  std::size_t width() const { return static_cast<std::size_t>(options_.width); }
  bool stops(std::int32_t token) const;
  std::vector<Candidate> candidates(std::span<const Generation> results) const;
  Beam longer(const Candidate& candidate) const;
  void end(Beam beam, StopReason reason);
  bool can_improve() const;

  Request request_;  // without stop tokens
  BeamOptions options_;
  std::vector<std::int32_t> stop_tokens_;
  std::int64_t min_tokens_, max_tokens_, logprobs_;
  StopReason last_;            // why a text of max_tokens_ ends
  std::vector<Beam> running_;  // the best first
  std::vector<Beam> ended_;    // likewise
  std::int64_t length_ = 0;    // of each that runs
  Generation first_{};         // times, and what was cached of the prompt
  double decode_seconds_ = 0;
  bool finished_ = false;
};

/// Runs a beam search on an engine; no text where the request's deadline comes first. Throws what fails a
/// sequence.
std::vector<BeamText> beam_search(Engine& engine, const Request& request, const BeamOptions& options);

}  // namespace ingot::infer
