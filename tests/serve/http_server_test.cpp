#include "ingot/serve/http_server.h"

#include <algorithm>
#include <filesystem>
#include <mutex>
#include <thread>

#include "tests/serve/running_server.h"
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ingot/base/error.h"
#include "ingot/base/files.h"

namespace ingot::serve {
namespace {

using namespace std::chrono_literals;
using test::Json;
using test::RunningServer;

// Random text that takes a while.
std::string endless(bool stream = true) {
  return Json{{"prompt", "a"}, {"max_tokens", 250}, {"ignore_eos", true}, {"stream", stream}}.dump();
}

// Waits for what threads of the server will have done soon.
template <class Condition>
bool eventually(Condition condition) {
  for (int i = 0; i < 2000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(1ms);
  }
  return false;
}

TEST(HttpServer, AClientThatGoesTakesItsRequestWithIt) {
  RunningServer server({.model = {.session = {.engine = {.context = 250}}}});
  for (const bool stream : {true, false}) {
    HttpClient client = server.client();
    client.send_raw("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: " +
                    std::to_string(endless(stream).size()) + "\r\n\r\n" + endless(stream));
    EXPECT_TRUE(eventually([&] { return server.engine().running > 0; }));
    client.close();
    EXPECT_TRUE(eventually([&] { return server.engine().cache.running == 0; }));
  }
  EXPECT_EQ(server.client().get("/health").status, 200);
}

TEST(HttpServer, RequestsOnOneConnectionAreAnsweredInTheirOrder) {
  const RunningServer server;
  HttpClient client = server.client();
  client.send_raw(
      "GET /live HTTP/1.1\r\nHost: localhost\r\n\r\nGET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n"
      "HEAD /live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(client.receive().status, 200);
  EXPECT_EQ(client.receive().status, 404);
  const std::string body = "{\"prompt\":\"<turn>\",\"temperature\":0,\"stream\":true}";
  HttpClient old = server.client();  // HTTP/1.0 knows no chunks: its answer ends with the connection
  old.send_raw("POST /v1/completions HTTP/1.0\r\nContent-Length: " + std::to_string(body.size()) +
               "\r\n\r\n" + body);
  EXPECT_TRUE(old.receive().body.ends_with("data: [DONE]\n\n"));
}

TEST(HttpServer, WhatIsTooLargeOrNoHttpIsRefused) {
  const RunningServer server({.http = {.max_header_bytes = 1000, .max_body_bytes = 1000}});
  const auto status = [&](const std::string& bytes) {
    HttpClient client = server.client();
    client.send_raw(bytes);
    return client.receive().status;
  };
  EXPECT_EQ(status("GET / HTTP/1.1\r\nX: " + std::string(2000, 'a')), 431);
  EXPECT_EQ(status("POST /tokenize HTTP/1.1\r\nContent-Length: 1001\r\n\r\n"), 413);
  EXPECT_EQ(status("POST /tokenize HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n400\r\n" +
                   std::string(1024, 'a') + "\r\n"),
            413);
  EXPECT_EQ(status("POST /tokenize HTTP/1.1\r\nContent-Length: -5\r\n\r\n"), 400);
  EXPECT_EQ(status("hello\r\n\r\n"), 400);
  EXPECT_EQ(status("GET /live HTTP/1.1\r\nHost: localhost\r\n\r\n"), 200);
}

TEST(HttpServer, AClientThatIsSlowToAskIsSentAway) {
  const RunningServer server({.http = {.header_timeout = 50ms, .body_timeout = 50ms}});
  HttpClient slow_headers = server.client();
  slow_headers.send_raw("GET /live HTTP/1.1\r\nX: ");
  EXPECT_EQ(slow_headers.receive().status, 408);
  HttpClient slow_body = server.client();
  slow_body.send_raw("POST /tokenize HTTP/1.1\r\nContent-Length: 50\r\n\r\n{");
  EXPECT_EQ(slow_body.receive().status, 408);
  EXPECT_TRUE(eventually([&] { return server.client().get("/live").status == 200; }));
}

TEST(HttpServer, IdleConnectionsEndAndTooManyAreTurnedAway) {
  const RunningServer server({.http = {.max_connections = 2, .idle_timeout = 100ms}});
  HttpClient first = server.client(), second = server.client(), third = server.client();
  EXPECT_EQ(first.get("/live").status, 200);
  EXPECT_EQ(second.get("/live").status, 200);
  EXPECT_EQ(third.get("/live").status, 503);
  EXPECT_TRUE(eventually([&] { return server.client().get("/live").status == 200; }));
}

TEST(HttpServer, ClientsAreAskedToSendTheirBodies) {
  const RunningServer server;
  HttpClient client = server.client();
  client.send_raw(
      "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 14\r\n\r\n");
  client.send_raw("{\"prompt\":\"a\"}");
  EXPECT_EQ(client.receive().status, 200);
}

TEST(HttpServer, EventStreamsThatHaveNothingToSayStayAlive) {
  std::atomic<bool> pinged{false};
  HttpServer server({.ping_interval = 10ms}, [&](const std::shared_ptr<Exchange>& exchange) {
    exchange->begin({.content_type = "text/event-stream"});
    std::thread([exchange, &pinged] {
      eventually([&] { return pinged.load(); });
      exchange->write("data: 1\n\n");
      exchange->end();
      exchange->write("late");
    }).detach();
  });
  server.start();
  HttpClient client("http://127.0.0.1:" + std::to_string(server.port()));
  std::string body;
  client.post("/", "{}", {}, [&](std::string_view piece) {
    body += piece;
    return pinged = true;
  });
  EXPECT_TRUE(body.starts_with(": ping\n\n"));
  EXPECT_TRUE(body.ends_with("data: 1\n\n"));
}

TEST(HttpServer, AReaderThatFallsBehindIsCutOff) {
  std::atomic<bool> closed{false};
  HttpServer server({.max_unsent_bytes = 100'000}, [&](const std::shared_ptr<Exchange>& exchange) {
    exchange->begin({});
    for (int i = 0; i < 200; ++i) exchange->write(std::string(100'000, 'a'));
    exchange->on_close([&] { closed = true; });
  });
  server.start();
  HttpClient client("http://127.0.0.1:" + std::to_string(server.port()));
  client.send_raw("GET / HTTP/1.1\r\n\r\n");
  EXPECT_TRUE(eventually([&] { return closed.load(); }));
}

TEST(HttpServer, ClientsThatGoInTheMidstOfAnAnswerLeaveNoConnection) {
  std::vector<std::thread> writers;
  std::mutex mutex;
  HttpServer server({}, [&](const std::shared_ptr<Exchange>& exchange) {
    exchange->begin({});
    const std::lock_guard lock(mutex);
    writers.emplace_back([exchange] {
      for (int i = 0; i < 300; ++i) exchange->write(std::string(3000, 'a'));
    });
  });
  server.start();
  for (int i = 0; i < 60; ++i) {
    HttpClient client("http://127.0.0.1:" + std::to_string(server.port()));
    client.send_raw("GET / HTTP/1.1\r\n\r\n");
    std::this_thread::sleep_for(std::chrono::milliseconds(i % 4));
  }
  EXPECT_TRUE(eventually([&] { return server.connections() == 0; }));
  server.stop();
  for (std::thread& writer : writers) writer.join();
}

TEST(HttpServer, EndsWhileThreadsStillWriteToItsExchanges) {
  for (int i = 0; i < 50; ++i) {
    std::atomic<bool> begun{false}, gone{false};
    std::thread writer;
    {
      HttpServer server({}, [&](const std::shared_ptr<Exchange>& exchange) {
        exchange->begin({});
        writer = std::thread([&, exchange] {
          begun = true;
          while (!gone) exchange->write("a");
        });
      });
      server.start();
      HttpClient client("http://127.0.0.1:" + std::to_string(server.port()));
      client.send_raw("GET / HTTP/1.1\r\n\r\n");
      ASSERT_TRUE(eventually([&] { return begun.load(); }));
    }
    gone = true;
    writer.join();
  }
}

TEST(HttpServer, SaysWhatItCannotListenAt) {
  const HttpHandler nobody = [](const std::shared_ptr<Exchange>&) {};
  EXPECT_THROW(HttpServer({.host = "example.org"}, nobody), InvalidConfig);
  const HttpServer first({}, nobody);
  EXPECT_THROW(HttpServer({.port = first.port()}, nobody), IoError);
}

TEST(Server, LetsInOnlyThoseWithAKeyWhereThereAreKeys) {
  const RunningServer server({.access = {.keys = {"secret", "other"}}});
  HttpClient client = server.client();
  for (const char* path : {"/v1/models", "/metrics", "/openapi.json", "/nothing"}) {
    EXPECT_EQ(client.get(path).status, 401) << path;
    EXPECT_EQ(client.get(path, {{"Authorization", "Bearer wrong"}}).status, 401) << path;
  }
  for (const char* path : {"/health", "/ready", "/live"}) EXPECT_EQ(client.get(path).status, 200) << path;
  EXPECT_EQ(client.get("/v1/models", {{"Authorization", "Bearer secret"}}).status, 200);
  EXPECT_EQ(client.get("/v1/models", {{"authorization", "bearer other"}}).status, 200);
  EXPECT_EQ(client.get("/v1/models", {{"x-api-key", "other"}}).status, 200);
}

TEST(Server, BeyondLoopbackWantsAKey) {
  const auto validate = [](const char* host, bool strangers, std::vector<std::string> keys) {
    ServerOptions options{.allow_strangers = strangers};
    options.http.host = host;
    options.access.keys = std::move(keys);
    options.validate();
  };
  EXPECT_THROW(validate("0.0.0.0", false, {}), InvalidConfig);
  EXPECT_THROW(validate("::", false, {}), InvalidConfig);
  validate("0.0.0.0", false, {"key"});
  validate("0.0.0.0", true, {});
  validate("127.0.0.1", false, {});
  validate("::1", false, {});
}

TEST(Server, WebPagesOfOthersAreKeptOut) {
  const RunningServer server(
      {.access = {.allowed_origins = {"http://good.example"}, .allowed_hosts = {"box"}}});
  const auto status = [&](const std::string& host, const std::string& origin) {
    HttpClient client = server.client();
    client.send_raw("GET /v1/models HTTP/1.1\r\nHost: " + host +
                    (origin.empty() ? "" : "\r\nOrigin: " + origin) + "\r\n\r\n");
    return client.receive().status;
  };
  EXPECT_EQ(status("localhost:8000", ""), 200);
  EXPECT_EQ(status("[::1]:8000", ""), 200);
  EXPECT_EQ(status("box", ""), 200);
  EXPECT_EQ(status("evil.example", ""), 403);  // its name points here now
  EXPECT_EQ(status("localhost", "http://evil.example"), 403);
  EXPECT_EQ(status("localhost", "http://good.example"), 200);
  EXPECT_EQ(status("localhost:8000", "http://localhost:8000"), 200);
  HttpClient client = server.client();
  client.send_raw("OPTIONS /v1/models HTTP/1.1\r\nHost: localhost\r\nOrigin: http://good.example\r\n\r\n");
  const ClientResponse preflight = client.receive();
  EXPECT_EQ(preflight.status, 204);
  EXPECT_NE(std::ranges::find(preflight.headers, std::pair<std::string, std::string>(
                                                     "access-control-allow-origin", "http://good.example")),
            preflight.headers.end());
}

TEST(Server, AFullQueueIsToldSo) {
  RunningServer server({.model = {.session = {.engine = {.context = 250, .max_running = 1}},
                                  .scheduler = {.max_waiting = 1}}});
  std::vector<HttpClient> clients;
  int refused = 0;
  for (int i = 0; i < 12; ++i) {
    clients.push_back(server.client());
    clients.back().send_raw("POST /v1/completions HTTP/1.1\r\nContent-Length: " +
                            std::to_string(endless(false).size()) + "\r\n\r\n" + endless(false));
  }
  for (HttpClient& client : clients) {
    const ClientResponse response = client.receive();
    EXPECT_TRUE(response.status == 200 || response.status == 429) << response.body;
    refused += response.status == 429 ? 1 : 0;
  }
  EXPECT_GT(refused, 0);
  EXPECT_LT(refused, 12);
}

TEST(Server, DrainsWithTheAnswersThatAreOnTheirWay) {
  RunningServer server;
  std::string stream;
  std::thread client([&] {
    server.client().post("/v1/completions", endless(), {}, [&](std::string_view piece) {
      stream += piece;
      return true;
    });
  });
  EXPECT_TRUE(eventually([&] { return server.engine().running > 0; }));
  EXPECT_EQ(server.client().get("/ready").status, 200);
  EXPECT_FALSE(server.server().drain(0ms));
  EXPECT_EQ(server.client().get("/ready").status, 503);
  EXPECT_EQ(server.client().post("/v1/completions", endless()).status, 503);
  EXPECT_TRUE(server.server().drain(10s));
  client.join();
  EXPECT_TRUE(stream.ends_with("data: [DONE]\n\n"));
  EXPECT_THROW(server.client().get("/live"), IoError);
}

TEST(Server, ItsModelsFilesMayBeReplacedAndRemovedWhileItRuns) {
  const RunningServer server;
  const auto ask = [&] {
    const ClientResponse response =
        server.client().post("/v1/completions", R"({"prompt":"<turn>","max_tokens":7,"temperature":0})");
    EXPECT_EQ(response.status, 200) << response.body;
    return test::parsed(response)["choices"][0]["text"];
  };
  EXPECT_EQ(ask(), "one twz");
  write_file_atomically(server.model_path() + "/model.safetensors", "another model");
  EXPECT_EQ(ask(), "one twz");
  for (const auto& file : std::filesystem::directory_iterator(server.model_path()))
    std::filesystem::remove(file);
  EXPECT_EQ(ask(), "one twz");
}

TEST(KeyFile, HoldsKeysOrTheirHashesAndHowOftenTheyMayAsk) {
  const ingot::test::TemporaryDirectory folder;
  const std::string path = folder.path() + "/keys";
  write_file_atomically(path,
                        "# team\n  one rpm=2 \n\nsha256:"
                        "3fc4ccfe745870e2c0d99f71f30ff0656c8dedd41cc1d7d3d376b0dbe685e2f3\r\n");  // of "two"
  RunningServer server({.access = {.key_file = path}});
  const auto ask = [&](const std::string& key) {
    return server.client().post("/tokenize", R"({"prompt":"a"})", {{"x-api-key", key}}).status;
  };
  EXPECT_EQ(ask("three"), 401);
  for (const int status : {200, 200, 429}) EXPECT_EQ(ask("one"), status);
  EXPECT_EQ(server.client().get("/v1/models", {{"x-api-key", "one"}}).status, 200);
  EXPECT_EQ(ask("two"), 200);
  const auto reload = [&](const std::string& text) {
    write_file_atomically(path, text);
    server.server().reload_keys();
  };
  EXPECT_THROW(reload("one rps=2\n"), InvalidConfig);
  EXPECT_THROW(reload("sha256:12\n"), InvalidConfig);
  EXPECT_THROW(reload("# nobody\n"), InvalidConfig);
  EXPECT_EQ(ask("two"), 200);  // as it was
  reload("three\none rpm=2\n");
  EXPECT_EQ(ask("two"), 401);
  EXPECT_EQ(ask("three"), 200);
  EXPECT_EQ(ask("one"), 429);
}

TEST(KeyFile, BoundsTheTokensOfAKeyAndTellsEachApiInItsShape) {
  const ingot::test::TemporaryDirectory folder;
  const std::string path = folder.path() + "/keys";
  for (const char* limit : {"tpm=10", "tpd=10"}) {
    write_file_atomically(path, fmt::format("one {}\ntwo\n", limit));
    RunningServer server({.access = {.key_file = path}});
    const auto post = [&](const char* route, const std::string& key) {
      return server.client().post(
          route,
          R"({"prompt":"ab","messages":[{"role":"user","content":"a"}],"max_tokens":20,)"
          R"("ignore_eos":true,"stream":false})",
          {{"x-api-key", key}});
    };
    EXPECT_EQ(post("/v1/completions", "one").status, 200) << "nobody knows before what it will take";
    const ClientResponse refused = post("/v1/completions", "one");
    EXPECT_EQ(refused.status, 429);
    EXPECT_EQ(test::parsed(refused)["error"]["code"], "rate_limit_exceeded");
    // Of 10 it took 22: 13 have to come.
    const auto wait =
        std::ranges::find(refused.headers, "retry-after", &std::pair<std::string, std::string>::first);
    ASSERT_NE(wait, refused.headers.end());
    EXPECT_NEAR(std::stod(wait->second), std::string(limit) == "tpm=10" ? 78 : 112'320, 3) << limit;
    const Json anthropic = test::parsed(post("/v1/messages", "one"));
    EXPECT_EQ(anthropic["type"], "error");
    EXPECT_EQ(anthropic["error"]["type"], "rate_limit_error");
    EXPECT_TRUE(test::parsed(post("/api/chat", "one"))["error"].is_string());
    EXPECT_EQ(server.client().get("/v1/models", {{"x-api-key", "one"}}).status, 200);
    EXPECT_EQ(post("/v1/completions", "two").status, 200);
    server.server().reload_keys();
    EXPECT_EQ(post("/v1/completions", "one").status, 429) << "to read the file again gives nothing back";
    write_file_atomically(path, "one\n");
    server.server().reload_keys();
    EXPECT_EQ(post("/v1/completions", "one").status, 200);
  }
}

TEST(KeyFile, SaysWhichModelsAKeyMayAskFor) {
  const ingot::test::TemporaryDirectory folder;
  const std::string path = folder.path() + "/keys";
  write_file_atomically(path, "one models=gpt-test,other\ntwo\n");
  RunningServer server({.access = {.key_file = path}});  // of "scripted", which is "gpt-test", too
  const auto post = [&](const char* route, const std::string& key, const std::string& model) {
    Json body = Json::parse(R"({"prompt":"a","messages":[{"role":"user","content":"a"}],"max_tokens":2})");
    if (!model.empty()) body["model"] = model;
    return server.client().post(route, body.dump(), {{"x-api-key", key}});
  };
  for (const char* route :
       {"/v1/completions", "/v1/chat/completions", "/v1/messages", "/api/chat", "/tokenize"}) {
    EXPECT_EQ(post(route, "one", "gpt-test").status, 200) << route;
    EXPECT_EQ(post(route, "one", "scripted").status, 403) << route;
    EXPECT_EQ(post(route, "one", "").status, 403) << route << ": the first model";
    EXPECT_EQ(post(route, "two", "scripted").status, 200) << route;
  }
  EXPECT_EQ(post("/v1/completions", "one", "other").status, 404) << "it may, and there is no such model";
  EXPECT_EQ(test::parsed(post("/v1/completions", "one", "scripted"))["error"]["code"], "model_not_allowed");
  EXPECT_EQ(test::parsed(post("/v1/messages", "one", "scripted"))["error"]["type"], "permission_error");
  EXPECT_TRUE(test::parsed(post("/api/chat", "one", "scripted"))["error"].is_string());
  const auto get = [&](const std::string& route, const std::string& key) {
    return server.client().get(route, {{"x-api-key", key}});
  };
  EXPECT_EQ(test::parsed(get("/v1/models", "one"))["data"].size(), 1U);
  EXPECT_EQ(test::parsed(get("/v1/models", "two"))["data"].size(), 2U);
  EXPECT_EQ(test::parsed(get("/api/tags", "one"))["models"].size(), 1U);
  EXPECT_EQ(get("/v1/models/scripted", "one").status, 403);
  write_file_atomically(path, "one models=scripted\n");
  server.server().reload_keys();
  EXPECT_EQ(post("/v1/completions", "one", "scripted").status, 200);
  EXPECT_EQ(post("/v1/completions", "one", "gpt-test").status, 403);
  for (const char* wrong : {"one models=\n", "one models=a,,b\n", "one tpm=0\n", "one tpd=many\n"}) {
    write_file_atomically(path, wrong);
    EXPECT_THROW(read_key_file(path), InvalidConfig) << wrong;
  }
}

TEST(KeyFile, SaysHowUrgentTheRequestsOfAKeyAre) {
  const ingot::test::TemporaryDirectory folder;
  const std::string path = folder.path() + "/keys";
  write_file_atomically(path, "one priority=-5 rpm=60\ntwo\n");
  const Access access({.key_file = path});
  const auto client = [&](const std::string& key) {
    return access.client({.headers = {{"authorization", "Bearer " + key}}});
  };
  EXPECT_EQ(client("one").priority, -5);
  EXPECT_EQ(client("two").priority, 0);
  EXPECT_FALSE(client("two").may_go_first);
  EXPECT_NE(client("one").name, client("two").name);
  EXPECT_TRUE(Access(AccessOptions{}).client({}).may_go_first);
  write_file_atomically(path, "one priority=high\n");
  EXPECT_THROW(read_key_file(path), InvalidConfig);
}

TEST(KeyFile, SaysWhichKeysMayChangeWhatIsServed) {
  const ingot::test::TemporaryDirectory folder;
  const std::string path = folder.path() + "/keys";
  write_file_atomically(path, "one admin rpm=60\ntwo rpm=60\n");
  RunningServer server({.adapter_directory = folder.path(), .access = {.keys = {"three"}, .key_file = path}});
  const auto post = [&](const std::string& path, const std::string& key) {
    return server.client().post(path, R"({"lora_name":"a","lora_path":"missing"})", {{"x-api-key", key}});
  };
  const auto load = [&](const std::string& key) { return post("/v1/load_lora_adapter", key); };
  EXPECT_EQ(load("one").status, 404) << "it may, and there is no such adapter";
  for (const char* key : {"two", "three"}) {
    for (const char* path : {"/v1/load_lora_adapter", "/v1/unload_lora_adapter", "/lora-adapters"}) {
      const ClientResponse refused = post(path, key);
      EXPECT_EQ(refused.status, 403) << path;
      EXPECT_EQ(test::parsed(refused)["error"]["code"], "admin_needed") << path;
    }
  }
  EXPECT_EQ(load("four").status, 401);
  EXPECT_EQ(server.client().get("/v1/models", {{"x-api-key", "two"}}).status, 200);
  write_file_atomically(path, "two admin\n");
  server.server().reload_keys();
  EXPECT_EQ(load("two").status, 404);
}

}  // namespace
}  // namespace ingot::serve
