#include <deque>
#include <mutex>

#include "tests/cli/process.h"
#include "tests/serve/running_server.h"
#include <gtest/gtest.h>

#include "ingot/base/files.h"
#include "ingot/serve/http_server.h"

namespace ingot::testing {
namespace {

using serve::test::Json;
using serve::test::RunningServer;

Outcome chat(const std::string& server, std::vector<std::string> more, const std::string& input) {
  std::vector<std::string> words{"chat", "--server", server};
  words.insert(words.end(), more.begin(), more.end());
  return run_ingot_with_input(words, input);
}

TEST(ChatWithAServer, HasTheCommandsAndTheAnswersOfAChatWithALocalModel) {
  const RunningServer server({.access = {.keys = {"secret"}}});
  const ::ingot::test::TemporaryDirectory folder;
  const std::string file = folder.path() + "/talk.jsonl";
  const Outcome outcome =
      chat(server.address(), {"--api-key", "secret", "-t", "0", "--stats"},
           "/model\n/system be kind\nhi\n/retry\n/model gpt-test\nonce more\n/save " + file + "\n");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_EQ(outcome.output, "one twz\none twz\none twz\n");
  EXPECT_NE(outcome.errors.find("* scripted\n  gpt-test\n"), std::string::npos) << outcome.errors;
  EXPECT_NE(outcome.errors.find("tokens of context]"), std::string::npos) << outcome.errors;
  const Json messages = Json::parse(read_file(file))["messages"];
  ASSERT_EQ(messages.size(), 5U);
  EXPECT_EQ(messages[0], (Json{{"role", "system"}, {"content", "be kind"}}));
  EXPECT_EQ(messages[4]["content"], "one twz");
}

TEST(ChatWithAServer, SaysWhatTheServerRefusesAndWhatToDo) {
  const RunningServer server({.access = {.keys = {"secret"}}});
  const Outcome no_key = chat(server.address(), {}, "hi\n");
  EXPECT_EQ(no_key.exit_code, 1);
  EXPECT_NE(no_key.errors.find("--api-key"), std::string::npos) << no_key.errors;
  const Outcome no_model = chat(server.address() + "/v1", {"other", "--api-key", "secret"}, "hi\n");
  EXPECT_NE(no_model.errors.find("'other' is not served here"), std::string::npos) << no_model.errors;
  const Outcome local = chat(server.address(), {"--device", "cpu"}, "");
  EXPECT_EQ(local.exit_code, 2);
  EXPECT_NE(local.errors.find("--device"), std::string::npos) << local.errors;
  EXPECT_NE(chat("example.org", {}, "").errors.find("http"), std::string::npos);
  EXPECT_EQ(run_ingot({"chat"}).exit_code, 2);
}

/// Answers one request after another with these responses, and keeps what was asked.
class ScriptedServer {
 public:
  explicit ScriptedServer(std::deque<serve::HttpResponse> responses)
      : responses_(std::move(responses)),
        http_({}, [this](const std::shared_ptr<serve::Exchange>& exchange) { answer(exchange); }) {
    http_.start();
  }
  ~ScriptedServer() { http_.stop(); }
  std::string address() const { return "http://127.0.0.1:" + std::to_string(http_.port()) + "/any/base"; }
  std::vector<Json> asked() const {
    const std::lock_guard lock(mutex_);
    return asked_;
  }

 private:
  void answer(const std::shared_ptr<serve::Exchange>& exchange) {
    const std::lock_guard lock(mutex_);
    asked_.push_back(Json::parse(exchange->request().body));
    if (exchange->request().path != "/any/base/chat/completions" || responses_.empty())
      return exchange->send({.status = 404});
    exchange->send(std::move(responses_.front()));
    responses_.pop_front();
  }

  mutable std::mutex mutex_;
  std::deque<serve::HttpResponse> responses_;
  std::vector<Json> asked_;
  serve::HttpServer http_;
};

serve::HttpResponse stream(const std::string& body) {
  return {.body = body, .content_type = "text/event-stream"};
}
serve::HttpResponse says(const std::string& text) {
  return stream(R"(data: {"choices":[{"delta":{"content":")" + text + R"("}}]})" + "\n\ndata: [DONE]\n\n");
}

TEST(ChatWithAServer, ReadsEachFormThatAnswersHave) {
  const ScriptedServer server({
      stream(
          ": ping\r\n\r\ndata:{\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\r\n\r\n"
          "data: {\"choices\":[{\"delta\":{\"reasoning_content\":\"why\"}}]}\r\n\r\n"
          "data: {\"choices\":[{\"delta\":{\"content\":\"so\"},\"finish_reason\":\"stop\"}]}\r\n\r\n"),
      {.body = R"({"choices":[{"message":{"content":"whole"},"finish_reason":"stop"}]})"},
  });
  const Outcome outcome =
      chat(server.address(), {"m", "-t", "0.5", "--stop", "x", "--choice", "a,b", "--seed", "7"}, "1\n2\n");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_EQ(outcome.output, "<think>\nwhy\n</think>\nso\nwhole\n");
  const Json last = server.asked().back();
  EXPECT_EQ(last["messages"],
            Json::parse(R"([{"role":"user","content":"1"},{"role":"assistant","content":"so"},)"
                        R"({"role":"user","content":"2"}])"));
  EXPECT_EQ(last["model"], "m");
  EXPECT_EQ(last["temperature"], 0.5);
  EXPECT_EQ(last["stop"], Json{"x"});
  EXPECT_EQ(last["structured_outputs"]["choice"], (Json{"a", "b"}));
  EXPECT_EQ(last["seed"], 7);
}

TEST(ChatWithAServer, ForgetsTheOldestTurnsWhereTheServersContextIsFull) {
  const serve::HttpResponse full{
      .status = 400, .body = R"({"error":{"message":"too long","code":"context_length_exceeded"}})"};
  const ScriptedServer server({says("a"), says("b"), full, says("c"), full});
  const Outcome outcome = chat(server.address(), {"m"}, "1\n2\n3\n");
  EXPECT_EQ(outcome.output, "a\nb\nc\n") << outcome.errors;
  EXPECT_NE(outcome.errors.find("1 question is forgotten with the answers"), std::string::npos);
  EXPECT_EQ(server.asked().back()["messages"].size(), 3U);
  const ScriptedServer strict({says("a"), full});
  const Outcome refused = chat(strict.address(), {"m", "--full-context", "stop"}, "1\n2\n");
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_NE(refused.errors.find("too long (400)"), std::string::npos) << refused.errors;
}

TEST(ChatWithAServer, ATurnMayHaveSeveralLines) {
  const ScriptedServer server({says("a"), says("b"), says("c")});
  const Outcome outcome = chat(server.address(), {"m"}, "one \\\ntwo\n\"\"\"three\n\nfour\"\"\"\nfive\n");
  EXPECT_EQ(outcome.output, "a\nb\nc\n") << outcome.errors;
  const Json messages = server.asked().back()["messages"];
  ASSERT_EQ(messages.size(), 5U);
  EXPECT_EQ(messages[0]["content"], "one \ntwo");
  EXPECT_EQ(messages[2]["content"], "three\n\nfour");
  EXPECT_EQ(messages[4]["content"], "five");
}

TEST(ChatWithAServer, AFailedCommandOfAPipeIsToldAndTheLinesBehindItAreAnswered) {
  const ScriptedServer server({says("a"), says("b")});
  const Outcome outcome = chat(server.address(), {"m"}, "/retry\n1\n/save /proc/none/talk.jsonl\n2\n");
  EXPECT_EQ(outcome.output, "a\nb\n") << outcome.errors;
  EXPECT_NE(outcome.errors.find("/proc/none"), std::string::npos) << outcome.errors;
  EXPECT_EQ(outcome.exit_code, 1);
}

TEST(ChatWithAServer, AnAnswerThatBreaksOffIsAnError) {
  for (const auto& [body, words] : std::vector<std::pair<std::string, std::string>>{
           {"data: {\"choices\":[{\"delta\":{\"content\":\"so\"}}]}\n\n", "ended its answer"},
           {"data: {\"error\":{\"message\":\"out of memory\"}}\n\ndata: [DONE]\n\n", "out of memory"}}) {
    const ScriptedServer server({stream(body)});
    const Outcome outcome = chat(server.address(), {"m"}, "1\n");
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_NE(outcome.errors.find(words), std::string::npos) << outcome.errors;
  }
}

}  // namespace
}  // namespace ingot::testing
