#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/json.h"
#include "ingot/serve/api.h"
#include "ingot/serve/assets.h"

namespace ingot::serve {
namespace {

void send_status(const std::shared_ptr<Exchange>& exchange, int status, const char* word) {
  exchange->send({.status = status, .body = std::string(R"({"status":")") + word + "\"}"});
}

void live(ApiContext&, const std::shared_ptr<Exchange>& exchange) { send_status(exchange, 200, "ok"); }

void ready(ApiContext& context, const std::shared_ptr<Exchange>& exchange) {
  context.draining ? send_status(exchange, 503, "shutting down") : send_status(exchange, 200, "ok");
}

void send_metrics(ApiContext& context, const std::shared_ptr<Exchange>& exchange) {
  exchange->send({.body = context.metrics.text(context.models.stats(), context.connections()),
                  .content_type = "text/plain; version=0.0.4; charset=utf-8"});
}

// By the beginning of the key's hash, as in a key file, or where it came from. Others than an admin see who
// they are themselves alone.
std::string shown_client(const TimelineEntry& entry, const Client& asks) {
  if (entry.client.empty()) return entry.peer;
  if (!asks.admin && entry.client != asks.name) return "another key";
  std::string hash;
  for (const char byte : entry.client.substr(0, 4))
    hash += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return "key " + hash;
}

void send_requests(ApiContext& context, const std::shared_ptr<Exchange>& exchange) {
  using Json = nlohmann::ordered_json;
  const Client asks = context.access.client(exchange->request());
  const auto time = [](double seconds) { return seconds >= 0 ? Json(seconds) : Json(nullptr); };
  Json requests = Json::array();
  for (const TimelineEntry& entry : context.timeline.entries()) {
    if (!context.access.allows_model(exchange->request(), entry.model)) continue;
    requests.push_back({{"id", entry.id},
                        {"state", entry.state()},
                        {"client", shown_client(entry, asks)},
                        {"model", entry.model},
                        {"adapter", entry.adapter},
                        {"arrived", entry.arrived},
                        {"admitted", time(entry.admitted)},
                        {"first_token", time(entry.first_token)},
                        {"ended", time(entry.ended)},
                        {"prompt_tokens", entry.prompt_tokens},
                        {"cached_tokens", entry.cached_tokens},
                        {"tokens", entry.tokens},
                        {"end", entry.end}});
  }
  exchange->send(
      {.body = dump_json(Json{{"now", context.timeline.now()}, {"requests", std::move(requests)}})});
}

void send_openapi(ApiContext&, const std::shared_ptr<Exchange>& exchange) {
  exchange->send({.body = std::string(serve_assets::openapi())});
}

}  // namespace

std::vector<Route> operation_routes() {
  return {{"GET", "/health", ready, true},     {"GET", "/ready", ready, true},
          {"GET", "/live", live, true},        {"GET", "/metrics", send_metrics},
          {"GET", "/requests", send_requests}, {"GET", "/openapi.json", send_openapi}};
}

}  // namespace ingot::serve
