#include "ingot/infer/session.h"

#include <algorithm>
#include <deque>
#include <iterator>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/base/log.h"
#include "ingot/core/device_config.h"
#include "ingot/core/host_memory.h"
#include "ingot/infer/file_identity.h"
#include "ingot/infer/load.h"
#include "ingot/infer/tensor_parallel.h"
#include "ingot/infer/text_stream.h"
#include "ingot/infer/word_tokens.h"
#include "ingot/models/language/format_plan.h"
#include "ingot/models/open_tokenizer.h"

namespace ingot::infer {
namespace {

// Sequences that do not change one another (docs/inference.md); a GPU promises nothing of the kind, and takes
// more.
constexpr std::int64_t kMaxBatch = 16, kMaxBatchOnGpu = 256;

}  // namespace

void SessionOptions::validate() const {
  const std::int64_t most = has_host_memory(choose_device(device)) ? kMaxBatch : kMaxBatchOnGpu;
  INGOT_CHECK(batch >= 1 && batch <= most,
              InvalidConfig("batch", fmt::format("must be 1 to {}, got {}", most, batch)));
  INGOT_CHECK(
      tensor_parallel_size >= 1,
      InvalidConfig("tensor_parallel_size", fmt::format("must be at least 1, got {}", tensor_parallel_size)));
}

std::unique_ptr<LanguageModel> load_model(const SessionOptions& options) {
  options.validate();
  auto model = options.tensor_parallel_size > 1
                   ? load_split_model(options)
                   : load_model(options.model, options.format, {.where = options.packed_cache},
                                choose_device(options.device));
  if (const auto stand_ins = stand_ins_of(model->config, options.format); !stand_ins.empty())
    log(LogLevel::warn, "ingot::infer", options.model + ": " + stand_ins.summary());
  if (options.tensor_parallel_size == 1) infer_with_adapters(*model, options.adapters);  // else they are on
  return model;
}

namespace {

// What it drafts has to mean the same to the model.
void check_same_tokens(const text::Tokenizer& model, const std::string& draft) {
  const text::Tokenizer tokens = open_tokenizer(draft);
  for (std::int32_t id = 0; id < std::min(model.vocab_size(), tokens.vocab_size()); ++id) {
    const std::string_view ours = model.id_to_token(id), theirs = tokens.id_to_token(id);
    INGOT_CHECK(
        ours == theirs || ours.empty() || theirs.empty(),
        InvalidConfig("draft_model",
                      fmt::format("has to have the model's tokens, but token {} is '{}' in {} and '{}' in "
                                  "the model; take a smaller model of the same family",
                                  id, theirs, draft, ours)));
  }
}

std::unique_ptr<LanguageModel> load_draft_model(const SessionOptions& options,
                                                const text::Tokenizer& tokenizer) {
  if (options.draft_model.empty()) return nullptr;
  check_same_tokens(tokenizer, options.draft_model);
  return load_model(options.draft_model, options.format, {.where = options.packed_cache},
                    choose_device(options.device));
}

// How the weights got to be what keys and values were made with.
void identify(PromptStoreOptions& store, const SessionOptions& options) {
  if (store.directory.empty()) return;
  store.model = fmt::format("{}\n{}", model_identity(options.model), options.format);
  for (const AdapterChoice& adapter : options.adapters)
    store.model += fmt::format("\n{} times {}", model_identity(adapter.path), adapter.weight);
}

// Captured steps would repeat those of another adapter.
EngineOptions engine_options_of(const SessionOptions& options, LanguageModel& model,
                                const LanguageModel* draft_model) {
  EngineOptions engine = options.engine;
  engine.draft_model = draft_model;
  identify(engine.prompt_store, options);
  if (options.named_adapters.empty() && !options.load_adapters) return engine;
  engine.capture = false;
  engine.adapters = std::make_shared<AdapterBank>(model, options.max_adapters, options.adapters_memory);
  for (const NamedAdapter& adapter : options.named_adapters)
    engine.adapters->load(adapter, model_identity(adapter.path));
  return engine;
}

}  // namespace

/// One sequence that is being generated.
class TextRun {
 public:
  TextRun(Engine& engine, const text::Tokenizer& tokenizer, const TextOptions& options, const OnText& on_text)
      : engine_(engine), stream_(tokenizer, options.stop, {}, options.include_stop), on_text_(on_text) {}
  ~TextRun() {
    if (sequence_ != nullptr) engine_.cancel(*sequence_);  // an error came in between
  }
  TextRun(const TextRun&) = delete;
  TextRun& operator=(const TextRun&) = delete;

  void start(Request request) {
    written_.prompt_tokens = static_cast<std::int64_t>(request.prompt.size());
    request.on_token = [this](std::int32_t id) { return show(stream_.push(id)) && !stream_.stopped(); };
    sequence_ = engine_.start(std::move(request));
  }
  bool finished() const { return sequence_ != nullptr && sequence_->finished(); }

  /// Once it is finished.
  WrittenText take() {
    const bool ended_by_caller = sequence_->result().reason == StopReason::cancelled && !stream_.stopped();
    if (!ended_by_caller) show(stream_.finish(sequence_->result().stop_token));
    written_.generation = sequence_->result();
    if (stream_.stopped()) written_.generation.reason = StopReason::stop_string;
    return std::move(written_);
  }

 private:
  bool show(const std::string& piece) {
    written_.text += piece;
    return piece.empty() || !on_text_ || on_text_(piece);
  }

  Engine& engine_;
  TextStream stream_;
  const OnText& on_text_;
  WrittenText written_;
  std::shared_ptr<Sequence> sequence_;
};

Session::Session(const SessionOptions& options)
    : options_(options),
      model_(load_model(options)),
      tokenizer_(open_tokenizer(options.model, options.adapters)),
      draft_model_(load_draft_model(options, tokenizer_)),
      generation_config_(GenerationConfig::of_model(options.model)),
      end_tokens_(find_end_tokens(generation_config_, tokenizer_)),
      grammars_(std::make_unique<GrammarCache>(tokenizer_)),
      engine_(*model_, engine_options_of(options, *model_, draft_model_.get())) {}

TextOptions Session::options(TextOptions options) const {
  generation_config_.apply(options);
  return options;
}

std::vector<std::int32_t> Session::encode(const std::string& prompt) const {
  std::vector<std::int32_t> ids = tokenizer_.encode(prompt);
  // A prompt that was rendered elsewhere may begin with BOS by itself.
  const auto bos = tokenizer_.bos_id();
  if (bos && ids.size() > 1 && ids[0] == *bos && ids[1] == *bos) ids.erase(ids.begin());
  if (!ids.empty()) return ids;
  const LanguageConfig& config = model_->config;
  const std::int64_t first = config.bos_token_id >= 0 ? config.bos_token_id : config.eos_token_id;
  INGOT_CHECK(first >= 0, InvalidConfig("prompt", "is empty, and the model names no token to begin with"));
  return {static_cast<std::int32_t>(first)};
}

Request Session::request(std::vector<std::int32_t> prompt, const TextOptions& options) const {
  Request request{.prompt = std::move(prompt),
                  .max_tokens = options.max_tokens,
                  .sampling = options.sampling,
                  .speculate = options.speculate,
                  .logprobs = options.logprobs,
                  .grammar = grammars_->get(options.constraint)};
  if (!options.ignore_end_tokens) request.stop_tokens = end_tokens_;
  if (options.thinking_budget >= 0 && !options.thoughts.end.empty()) {
    const auto tokens = [this](const std::string& text) {
      return tokenizer_.encode(text, {.add_special_tokens = false});
    };
    request.thinking = {.tokens = options.thinking_budget,
                        .begin = tokens(options.thoughts.begin),
                        .end = tokens(options.thoughts.end),
                        .closing = tokens(options.thoughts_closing),
                        .begun = options.thoughts.begun};
  }
  const auto add = [](std::vector<TokenSequence>& to, std::vector<TokenSequence> more) {
    to.insert(to.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  };
  SamplingOptions& sampling = request.sampling;
  add(sampling.bad_words, word_sequences(tokenizer_, options.bad_words));
  if (sampling.dry.multiplier != 0)
    add(sampling.dry.breakers, breaker_sequences(tokenizer_, options.dry_sequence_breakers));
  return request;
}

bool Session::takes_long_to_request(const TextOptions& options) const {
  const bool compiles =
      options.constraint.kind != Constraint::Kind::none && grammars_->find(options.constraint) == nullptr;
  return compiles || options.sampling.dry.multiplier != 0;
}

WrittenText Session::generate(const std::string& prompt, const TextOptions& options, const OnText& on_text) {
  WrittenText written = generate(encode(prompt), options, on_text);
  written.prompt = prompt;
  return written;
}

WrittenText Session::generate(std::vector<std::int32_t> prompt, const TextOptions& options,
                              const OnText& on_text) {
  TextRun run(engine_, tokenizer_, options, on_text);
  run.start(request(std::move(prompt), options));
  while (!run.finished()) engine_.step();
  return run.take();
}

std::vector<WrittenText> Session::search(const std::string& prompt, const TextOptions& options,
                                         const BeamOptions& beams) {
  INGOT_CHECK(options.stop.empty(),
              InvalidConfig("stop", "does not go with a beam search; leave one of the two out"));
  const Request request = this->request(encode(prompt), options);
  std::vector<WrittenText> texts;
  for (BeamText& found : beam_search(engine_, request, beams)) {
    TextStream stream(tokenizer_, {}, {}, options.include_stop);
    WrittenText& written = texts.emplace_back();
    written.prompt = prompt;
    for (const std::int32_t token : found.generation.tokens) written.text += stream.push(token);
    written.text += stream.finish(found.generation.stop_token);
    written.prompt_tokens = std::ssize(request.prompt);
    written.generation = std::move(found.generation);
    written.score = found.score;
  }
  return texts;
}

void Session::generate_all(std::span<const std::string> prompts, const TextOptions& options,
                           const std::function<void(const WrittenText&)>& on_written) {
  const OnText nobody;
  std::deque<TextRun> runs;  // from the first that is not finished on
  std::size_t started = 0;
  for (std::size_t written = 0; written < prompts.size();) {
    const auto running = [&] {
      return std::ranges::count_if(runs, [](const TextRun& run) { return !run.finished(); });
    };
    while (started < prompts.size() && running() < options_.batch)
      runs.emplace_back(engine_, tokenizer_, options, nobody)
          .start(request(encode(prompts[started++]), options));
    engine_.step();
    for (; !runs.empty() && runs.front().finished(); runs.pop_front()) {
      WrittenText text = runs.front().take();
      text.prompt = prompts[written++];
      on_written(text);
    }
  }
}

}  // namespace ingot::infer
