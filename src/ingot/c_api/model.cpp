#include "ingot/c_api/model.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/json.h"
#include "ingot/c_api/inner/generation.h"
#include "ingot/c_api/inner/objects.h"
#include "ingot/core/device_config.h"
#include "ingot/hub/resolve.h"
#include "ingot/infer/load.h"
#include "ingot/infer/sentence_embedder.h"

using namespace ingot;
using namespace ingot::c_api;

IngotGeneration::IngotGeneration(infer::WrittenText w)
    : written(std::move(w)), reason(name(written.generation.reason)) {
  const infer::Generation& generation = written.generation;
  logprobs.reserve(generation.logprobs.size());
  for (const infer::DrawnLogprob& one : generation.logprobs) logprobs.push_back(one.logprob);
}

namespace {

std::string messages_arg(const char* messages) {
  std::string text = string_arg(messages, "messages");
  const auto json = parse_json_or_discard<nlohmann::json>(text);
  INGOT_CHECK(json.is_array() && std::ranges::all_of(json, [](const auto& one) { return one.is_object(); }),
              InvalidConfig("messages",
                            R"(is not a JSON list of objects such as [{"role": "user", "content": "Hi"}])"));
  return text;
}

}  // namespace

std::string IngotSession::chat_text(const char* messages, const char* tools) const {
  const infer::ChatPrompt prompt(session.tokenizer(), session.path());
  text::ChatInput input;
  input.messages = messages_arg(messages);
  if (tools != nullptr) input.tools = tools;
  input.add_generation_prompt = true;
  return prompt.render(std::move(input));
}

std::vector<std::int32_t> IngotSession::chat_ids(const char* messages, const char* tools) const {
  return session.tokenizer().encode(chat_text(messages, tools), {.add_special_tokens = false});
}

namespace ingot::c_api {
namespace {

infer::SessionOptions session_options(const char* model, const IngotSessionOptions* given) {
  IngotSessionOptions defaults{};
  defaults.chunk = infer::EngineOptions{}.chunk;
  const auto o = options_or(given, defaults);
  infer::SessionOptions options{.model = hub::resolve_model(string_arg(model, "model")),
                                .format = string_or_empty(o.format)};
  if (o.device != nullptr) options.device = o.device;
  if (o.packed_cache != nullptr) options.packed_cache = o.packed_cache;
  options.engine.context = o.context;
  options.engine.chunk = o.chunk;
  options.engine.kv_memory = o.kv_memory;
  options.engine.max_running = o.max_running;
  options.engine.prefix_cache = o.prefix_cache != 0;
  options.engine.batch_invariant = o.batch_invariant != 0;
  options.engine.capture = o.eager == 0;
  if (o.kv_cache != nullptr) options.engine.kv_cache = parse_dtype(o.kv_cache);
  const auto adapters = array_arg(o.adapters, o.adapter_count, "options.adapters");
  options.adapters.reserve(adapters.size());
  for (std::size_t i = 0; i < adapters.size(); ++i) {
    options.adapters.push_back({.path = hub::resolve_model(string_arg(adapters[i], "options.adapters")),
                                .weight = o.adapter_weights == nullptr ? 1.0F : o.adapter_weights[i]});
  }
  return options;
}

/// Generates from what `prompt` makes of the session, which nobody else uses meanwhile.
template <class MakePrompt>
IngotStatus generate(const char* function, IngotSession* handle, const IngotGenerateOptions* options,
                     IngotOnText on_text, void* user, IngotGeneration** out, const MakePrompt& prompt) {
  return call(function, [&] {
    if (out != nullptr) *out = nullptr;
    const Use<IngotSession> session(handle);
    const auto show = [&](std::string_view piece) {
      return on_text == nullptr || on_text(std::string(piece).c_str(), piece.size(), user) == 0;
    };
    infer::WrittenText written =
        session->session.generate(prompt(*session), text_options(session->session, options), show);
    if (out != nullptr) *out = open_handle(std::make_shared<IngotGeneration>(std::move(written)));
  });
}

}  // namespace
}  // namespace ingot::c_api

struct IngotEmbedder : Object {
  static constexpr const char* kName = "embedder";
  explicit IngotEmbedder(SentenceEmbedder e) : embedder(std::move(e)) {}
  SentenceEmbedder embedder;
};

extern "C" {

IngotStatus ingot_session_open(const char* model, const IngotSessionOptions* options, IngotSession** out) {
  return call(__func__, [&] {
    auto& made = result(out, "out");
    made = open_handle(std::make_shared<IngotSession>(session_options(model, options)));
  });
}

IngotStatus ingot_session_close(IngotSession* session) {
  return call(__func__, [&] { close_handle(session); });
}

IngotStatus ingot_session_info(const IngotSession* session, IngotModelInfo* info, size_t size) {
  return call(__func__, [&] {
    const auto object = object_of(session);
    infer::Session& s = object->session;
    const LanguageConfig& config = s.model().config;
    const IngotModelInfo values{.model_type = config.model_type.c_str(),
                                .device = device_name(s.model().device()),
                                .parameters = config.parameter_count(),
                                .vocab_size = config.vocab_size,
                                .context = s.engine().context(),
                                .layers = config.num_hidden_layers,
                                .hidden_size = config.hidden_size,
                                .has_chat_template = s.tokenizer().config().chat_template.empty() ? 0 : 1};
    fill(info, size, values, "info");
  });
}

IngotStatus ingot_session_tokenize(const IngotSession* session, const char* text, int32_t add_special_tokens,
                                   int32_t** ids, size_t* count) {
  return call(__func__, [&] {
    auto& made = result(ids, "ids");
    auto& length = result(count, "count");
    const auto encoded = object_of(session)->session.tokenizer().encode(
        string_arg(text, "text"), {.add_special_tokens = add_special_tokens != 0});
    made = static_cast<std::int32_t*>(give_bytes(encoded.data(), encoded.size() * sizeof(std::int32_t)));
    length = encoded.size();
  });
}

IngotStatus ingot_session_detokenize(const IngotSession* session, const int32_t* ids, size_t count,
                                     int32_t skip_special_tokens, char** text, size_t* bytes) {
  return call(__func__, [&] {
    auto& made = result(text, "text");
    if (bytes != nullptr) *bytes = 0;
    const std::string decoded = object_of(session)->session.tokenizer().decode(array_arg(ids, count, "ids"),
                                                                               skip_special_tokens != 0);
    made = give_text(decoded);
    if (bytes != nullptr) *bytes = decoded.size();
  });
}

IngotStatus ingot_generation_info(const IngotGeneration* generation, IngotGenerationInfo* info, size_t size) {
  return call(__func__, [&] {
    const auto g = object_of(generation);
    const infer::Generation& made = g->written.generation;
    const IngotGenerationInfo values{.text = g->written.text.c_str(),
                                     .text_bytes = g->written.text.size(),
                                     .tokens = made.tokens.data(),
                                     .token_count = made.tokens.size(),
                                     .logprobs = g->logprobs.empty() ? nullptr : g->logprobs.data(),
                                     .reason = g->reason.c_str(),
                                     .prompt_tokens = g->written.prompt_tokens,
                                     .cached_tokens = made.cached_tokens,
                                     .queue_seconds = made.queue_seconds,
                                     .prompt_seconds = made.prompt_seconds,
                                     .decode_seconds = made.decode_seconds,
                                     .drafted = made.drafted,
                                     .accepted = made.accepted};
    fill(info, size, values, "info");
  });
}

IngotStatus ingot_generation_close(IngotGeneration* generation) {
  return call(__func__, [&] { close_handle(generation); });
}

IngotStatus ingot_session_generate(IngotSession* session, const char* prompt,
                                   const IngotGenerateOptions* options, IngotOnText on_text, void* user,
                                   IngotGeneration** out) {
  return generate(__func__, session, options, on_text, user, out,
                  [&](const IngotSession& s) { return s.session.encode(string_arg(prompt, "prompt")); });
}

IngotStatus ingot_session_generate_ids(IngotSession* session, const int32_t* ids, size_t count,
                                       const IngotGenerateOptions* options, IngotOnText on_text, void* user,
                                       IngotGeneration** out) {
  return generate(__func__, session, options, on_text, user, out, [&](const IngotSession&) {
    const auto given = array_arg(ids, count, "ids");
    return std::vector<std::int32_t>(given.begin(), given.end());
  });
}

IngotStatus ingot_session_chat_prompt(const IngotSession* session, const char* messages, const char* tools,
                                      char** text) {
  return call(__func__, [&] {
    auto& made = result(text, "text");
    made = give_text(object_of(session)->chat_text(messages, tools));
  });
}

IngotStatus ingot_session_chat(IngotSession* session, const char* messages, const char* tools,
                               const IngotGenerateOptions* options, IngotOnText on_text, void* user,
                               IngotGeneration** out) {
  return generate(__func__, session, options, on_text, user, out,
                  [&](const IngotSession& s) { return s.chat_ids(messages, tools); });
}

IngotStatus ingot_session_logits(IngotSession* session, const int32_t* ids, size_t count, IngotTensor** out) {
  return call(__func__, [&] {
    auto& made = result(out, "out");
    const NoGrad no_grad;
    const auto given = array_arg(ids, count, "ids");
    if (given.empty()) throw InvalidArgument("count", "is 0; give at least one id");
    const Use<IngotSession> s(session);
    made = open_tensor(infer::token_logits(s->session.model(), given));
  });
}

IngotStatus ingot_embedder_open(const char* model, const char* format, const char* device,
                                IngotEmbedder** out) {
  return call(__func__, [&] {
    auto& made = result(out, "out");
    made = open_handle(std::make_shared<IngotEmbedder>(SentenceEmbedder::open(
        hub::resolve_model(string_arg(model, "model")),
        encoder_options(string_or_empty(format), choose_device(device == nullptr ? "auto" : device)))));
  });
}

IngotStatus ingot_embedder_dimension(const IngotEmbedder* embedder, int64_t* dimension) {
  return call(__func__, [&] {
    auto& shown = result(dimension, "dimension");
    shown = object_of(embedder)->embedder.dimension();
  });
}

IngotStatus ingot_embedder_embed(IngotEmbedder* embedder, const char* const* texts, size_t count,
                                 const char* prompt, float* vectors, size_t capacity) {
  return call(__func__, [&] {
    const NoGrad no_grad;
    const Use<IngotEmbedder> e(embedder);
    std::vector<std::string_view> views;
    views.reserve(count);
    for (const char* one : array_arg(texts, count, "texts")) views.emplace_back(&required(one, "texts"));
    const std::size_t needed = count * static_cast<std::size_t>(e->embedder.dimension());
    INGOT_CHECK(capacity >= needed, DimensionMismatch("vectors holds " + std::to_string(capacity) +
                                                      " numbers; " + std::to_string(count) + " texts of " +
                                                      std::to_string(e->embedder.dimension()) + " need " +
                                                      std::to_string(needed)));
    if (count == 0) return;
    required(vectors, "vectors");
    const std::vector<float> made = e->embedder.embed(views, string_or_empty(prompt)).to_vector<float>();
    std::ranges::copy(made, vectors);
  });
}

IngotStatus ingot_embedder_close(IngotEmbedder* embedder) {
  return call(__func__, [&] { close_handle(embedder); });
}

}  // extern "C"
