#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ingot/infer/beam_search.h"
#include "ingot/infer/engine.h"
#include "ingot/infer/generation_config.h"
#include "ingot/infer/text_options.h"
#include "ingot/models/adapter/use_adapters.h"
#include "ingot/text/tokenizer.h"

namespace ingot::infer {

/// How a model is opened for inference.
struct SessionOptions {
  std::string model;                  ///< a directory of Hugging Face's layout, or a .gguf file
  std::string format{};               ///< of the weights, as load_model() takes it; empty: as stored
  std::string device = "auto";        ///< as choose_device() takes it
  std::string packed_cache = "auto";  ///< PackedCacheOptions::where
  /// A smaller model with the same tokens that drafts tokens (EngineOptions::draft_model), in this format and
  /// on this device, too; empty: none.
  std::string draft_model{};
  /// Ranks that have the model together, on processors (tensor_parallel.h); this process is the first of
  /// them.
  std::int64_t tensor_parallel_size = 1;
  EngineOptions engine{};
  std::vector<AdapterChoice> adapters{};       ///< LoRA adapters to put on the model; several add up
  std::vector<NamedAdapter> named_adapters{};  ///< that requests choose by name (Request::adapter)
  bool load_adapters = false;    ///< more of them are loaded and unloaded later (EngineOptions::adapters)
  std::size_t max_adapters = 0;  ///< named ones at a time; 0: any number
  /// Bytes of named ones: where they have more, the least recently used is evicted (AdapterBank); 0: no
  /// limit.
  std::size_t adapters_memory = 0;
  std::int64_t batch = 8;  ///< prompts continued at once by generate_all(): at most 16, on a GPU 256

  /// Throws InvalidConfig naming the option.
  void validate() const;
};

/// load_model() by these options, with the adapters on.
std::unique_ptr<LanguageModel> load_model(const SessionOptions& options);

/// Gets each piece of text once it is certain; false ends the sequence.
using OnText = std::function<bool(std::string_view piece)>;

/// A text that was generated.
struct WrittenText {
  std::string prompt;
  std::string text;  ///< what was written behind the prompt
  std::int64_t prompt_tokens = 0;
  Generation generation;
  double score = 0;  ///< of a beam search
};

class TextRun;

/// A model open for inference, with what surrounds its weights: tokenizer, generation settings, end tokens.
/// Text in, text out. Not for use by several threads at once.
///
///     infer::Session session({.model = "out/model", .format = "q8_0"});
///     session.generate("Once upon a time", session.options({.max_tokens = 64}), show);
class Session {
 public:
  /// Throws as load_model() and open_tokenizer() do.
  explicit Session(const SessionOptions& options);

  const std::string& path() const { return options_.model; }
  const LanguageModel& model() const { return *model_; }
  const text::Tokenizer& tokenizer() const { return tokenizer_; }
  Engine& engine() { return engine_; }
  const EngineOptions& engine_options() const { return options_.engine; }
  /// Null where nothing can be chosen by name.
  const std::shared_ptr<AdapterBank>& adapters() const { return engine_.adapters(); }
  /// `options` with what the model's own files say (GenerationConfig::apply).
  TextOptions options(TextOptions options = {}) const;
  /// Tokens that end a sequence (find_end_tokens).
  std::span<const std::int32_t> end_tokens() const { return end_tokens_; }

  /// The prompt's ids; for an empty one the token that the model begins with (InvalidConfig: it names none).
  std::vector<std::int32_t> encode(const std::string& prompt) const;
  /// The engine's request for these ids and options. Throws InvalidConfig for a constraint that is wrong.
  /// Safe beside everything else.
  Request request(std::vector<std::int32_t> prompt, const TextOptions& options) const;

  /// Whether request() may take long for these options: a grammar has to be compiled, or the vocabulary
  /// searched for DRY's breakers. Takes no time itself, and is safe beside everything else.
  bool takes_long_to_request(const TextOptions& options) const;

  /// Continues a prompt.
  WrittenText generate(const std::string& prompt, const TextOptions& options, const OnText& on_text = {});
  /// Continues each prompt, SessionOptions::batch of them at once; `on_written` gets them in their order.
  void generate_all(std::span<const std::string> prompts, const TextOptions& options,
                    const std::function<void(const WrittenText&)>& on_written);
  /// Continues ids.
  WrittenText generate(std::vector<std::int32_t> prompt, const TextOptions& options,
                       const OnText& on_text = {});
  /// The most probable continuations of a prompt, the best first (BeamSearch). Throws InvalidConfig for stop
  /// strings, and what else does not go with a beam search.
  std::vector<WrittenText> search(const std::string& prompt, const TextOptions& options,
                                  const BeamOptions& beams);

 private:
  SessionOptions options_;
  std::unique_ptr<LanguageModel> model_;
  text::Tokenizer tokenizer_;
  std::unique_ptr<LanguageModel> draft_model_;  // null: none
  GenerationConfig generation_config_;
  std::vector<std::int32_t> end_tokens_;
  std::unique_ptr<GrammarCache> grammars_;
  Engine engine_;
};

}  // namespace ingot::infer
