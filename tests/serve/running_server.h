#pragma once

#include <string>
#include <vector>

#include "tests/infer/scripted_model.h"
#include "tests/support/temporary_directory.h"
#include <nlohmann/json.hpp>

#include "ingot/serve/http_client.h"
#include "ingot/serve/server.h"

namespace ingot::serve::test {

using Json = nlohmann::ordered_json;

/// A server of the scripted model on a free port: an answer is "one twz", other texts are random.
class RunningServer {
 public:
  explicit RunningServer(ServerOptions options = {}) : server_(with_model(std::move(options))) {}

  Server& server() { return server_; }
  const Server& server() const { return server_; }
  /// Of the scripted model.
  infer::EngineStats engine() const { return server_.models().stats().front().second; }
  const std::string& model_path() const { return folder_.path(); }
  std::string address() const { return "http://127.0.0.1:" + std::to_string(server_.port()); }
  HttpClient client() const { return HttpClient(address(), std::chrono::seconds(20)); }

 private:
  ServerOptions with_model(ServerOptions options) const {
    options.model.session.model = ingot::test::write_scripted_model(
        folder_.path(), ingot::test::script(3 /* <turn> */, "one twz", 4 /* <end> */));
    options.model.session.engine.prefix_cache = true;
    options.model.names = {"scripted", "gpt-test"};
    options.access_log = false;
    return options;
  }

  const ingot::test::TemporaryDirectory folder_;
  Server server_;
};

inline Json parsed(const ClientResponse& response) { return Json::parse(response.body); }

/// The JSON of a stream's events; the last one, [DONE], as a string.
inline std::vector<Json> events_of(const std::string& stream) {
  std::vector<Json> events;
  for (std::size_t at = 0; at < stream.size();) {
    const std::size_t end = stream.find("\n\n", at);
    const std::string event = stream.substr(at, end - at);
    at = end == stream.npos ? stream.size() : end + 2;
    if (!event.starts_with("data: ")) continue;
    const std::string data = event.substr(6);
    events.push_back(data == "[DONE]" ? Json(data) : Json::parse(data));
  }
  return events;
}

}  // namespace ingot::serve::test
