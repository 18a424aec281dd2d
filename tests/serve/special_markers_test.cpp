// A model whose thoughts end with a special token, and that writes another one in its answer.
#include <chrono>
#include <map>
#include <string>

#include "tests/infer/scripted_model.h"
#include "tests/serve/running_server.h"
#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>

#include "ingot/base/files.h"

namespace ingot::serve {
namespace {

using ingot::test::scripted_id;
using test::Json;
using test::parsed;

constexpr std::int32_t kToolEnd = 0, kThinkEnd = 2, kEnd = 4;

void replace_in(const std::string& path, const std::string& from, const std::string& to) {
  std::string text = read_file(path);
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  write_file_atomically(path, text);
}

// Writes "hm", </think>, "o", <tool|>, "k".
std::string write_thinking_model(const std::string& directory) {
  ingot::test::write_scripted_model(directory, {{scripted_id('>'), scripted_id('h')},
                                                {scripted_id('h'), scripted_id('m')},
                                                {scripted_id('m'), kThinkEnd},
                                                {kThinkEnd, scripted_id('o')},
                                                {scripted_id('o'), kToolEnd},
                                                {kToolEnd, scripted_id('k')},
                                                {scripted_id('k'), kEnd}});
  for (const char* file : {"/tokenizer.json", "/tokenizer_config.json"}) {
    replace_in(directory + file, "<pad>", "<tool|>");
    replace_in(directory + file, "<bos>", "</think>");
  }
  write_file_atomically(directory + "/chat_template.jinja",
                        "{% for m in messages %}<turn>{{ m.content }}<end>{% endfor %}<turn><think>");
  return directory;
}

TEST(SpecialMarkers, ThatAreNoneOfThoughtsOrCallsAreNotShown) {
  const ingot::test::TemporaryDirectory folder;
  ServerOptions options;
  options.model.session.model = write_thinking_model(folder.path());
  options.model.names = {"scripted"};
  options.access_log = false;
  const Server server(options);
  HttpClient client("http://127.0.0.1:" + std::to_string(server.port()), std::chrono::seconds(20));
  Json body = Json::parse(R"({"messages": [{"role": "user", "content": "hi"}], "temperature": 0})");
  const auto message = [&] {
    return parsed(client.post("/v1/chat/completions", body.dump()))["choices"][0]["message"];
  };
  EXPECT_EQ(message()["content"], "ok");
  EXPECT_EQ(message()["reasoning_content"], "hm");
  body["skip_special_tokens"] = false;
  EXPECT_EQ(message()["content"], "o<tool|>k");
}

}  // namespace
}  // namespace ingot::serve
