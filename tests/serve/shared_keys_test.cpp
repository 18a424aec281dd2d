// A server of models whose layers read others' keys and have inputs of their own: what several clients are
// told together, in pieces, behind known prompts and with drafts is what one is told alone.
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/infer/scripted_model.h"
#include "tests/serve/running_server.h"
#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>

#include "ingot/models/language/config.h"
#include "ingot/models/language/decoder.h"
#include "ingot/models/language/model_directory.h"
#include "ingot/nn/param_source.h"

namespace ingot::serve {
namespace {

using test::events_of;
using test::Json;
using test::parsed;

// Random weights, and the tokenizer of single characters.
void write_model(const std::string& directory, const std::string& family) {
  ingot::test::write_scripted_model(directory, {});
  LanguageConfig c;
  c.model_type = family;
  apply_family(c);
  c.vocab_size = c.vocab_size_per_layer_input = 64;
  c.hidden_size = 24;
  c.intermediate_size = 20;
  c.num_hidden_layers = 5;
  c.num_attention_heads = 4;
  c.num_key_value_heads = 2;
  c.head_dim = 8;
  c.layer_types = {LayerKind::sliding, LayerKind::full, LayerKind::sliding, LayerKind::sliding,
                   LayerKind::full};
  c.sliding_window = 16;
  c.num_kv_shared_layers = 2;
  c.hidden_size_per_layer_input = 6;
  c.max_position_embeddings = 256;
  c.bos_token_id = 2;
  c.eos_token_id = 1;
  c.initializer_range = 0.3;  // so that answers are no one character
  if (family == "gemma4_text") c.global_head_dim = 16;
  InitSource init(7);
  LanguageModel model(c, init);
  write_language_model(directory, c, parameter_map(model));
}

class SharedKeysServer {
 public:
  SharedKeysServer(const std::string& directory, std::int64_t speculate)
      : server_(options(directory, speculate)) {}

  HttpClient client() const {
    return HttpClient("http://127.0.0.1:" + std::to_string(server_.port()), std::chrono::seconds(20));
  }
  Json answer(const std::string& text) const {
    return parsed(client().post("/v1/chat/completions", request(text).dump()));
  }
  std::string text_of(const std::string& text) const {
    const Json found = answer(text);
    return found.contains("choices") ? found["choices"][0]["message"]["content"].get<std::string>()
                                     : found.dump();
  }
  std::string streamed(const std::string& text) const {
    Json body = request(text);
    body["stream"] = true;
    std::string stream, whole;
    client().post("/v1/chat/completions", body.dump(), {}, [&](std::string_view piece) {
      stream += piece;
      return true;
    });
    for (const Json& event : events_of(stream))
      if (event.is_object() && !event["choices"].empty())
        whole += event["choices"][0]["delta"].value("content", "");
    return whole;
  }
  std::vector<std::string> together(const std::vector<std::string>& texts) const {
    std::vector<std::string> answers(texts.size());
    std::vector<std::thread> threads;
    threads.reserve(texts.size());
    for (std::size_t i = 0; i < texts.size(); ++i)
      threads.emplace_back([&, i] { answers[i] = text_of(texts[i]); });
    for (std::thread& thread : threads) thread.join();
    return answers;
  }

 private:
  static Json request(const std::string& text) {
    return {{"messages", Json::array({{{"role", "user"}, {"content", text}}})},
            {"max_tokens", 32},
            {"temperature", 0},
            {"ignore_eos", true}};
  }
  static ServerOptions options(const std::string& directory, std::int64_t speculate) {
    ServerOptions options;
    options.model.session.model = directory;
    options.model.session.engine.prefix_cache = true;
    options.model.speculate = speculate;
    options.access_log = false;
    return options;
  }

  Server server_;
};

class ServedSharedKeys : public ::testing::TestWithParam<const char*> {};

TEST_P(ServedSharedKeys, SaysTheSameTogetherStreamedBehindKnownPromptsAndWithDrafts) {
  const ingot::test::TemporaryDirectory folder;
  write_model(folder.path(), GetParam());
  const std::vector<std::string> texts{"hello there", "hello there, again and again and again",
                                       "the cat the cat the cat the cat the cat", "0123456789"};
  const SharedKeysServer plain(folder.path(), 0), drafting(folder.path(), 4);
  std::vector<std::string> alone;
  alone.reserve(texts.size());
  for (const std::string& text : texts) alone.push_back(plain.text_of(text));
  EXPECT_NE(alone[0], alone[3]);
  for (const std::string& answer : alone) EXPECT_FALSE(answer.empty());  // special tokens are not shown
  EXPECT_EQ(plain.together(texts), alone);  // all of whose prompts are known by now
  EXPECT_EQ(drafting.together(texts), alone);
  for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(drafting.streamed(texts[i]), alone[i]);
  plain.answer(texts[1]);  // whose cache a shorter prompt beside it may have taken over
  const Json again = plain.answer(texts[1]);
  EXPECT_GT(again["usage"]["prompt_tokens_details"]["cached_tokens"], 20);
  EXPECT_EQ(again["choices"][0]["message"]["content"], alone[1]);
}

INSTANTIATE_TEST_SUITE_P(Families, ServedSharedKeys, ::testing::Values("gemma4_text"));

}  // namespace
}  // namespace ingot::serve
