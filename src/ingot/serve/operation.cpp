#include <string>

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

void send_openapi(ApiContext&, const std::shared_ptr<Exchange>& exchange) {
  exchange->send({.body = std::string(serve_assets::openapi())});
}

}  // namespace

std::vector<Route> operation_routes() {
  return {{"GET", "/health", ready, true},
          {"GET", "/ready", ready, true},
          {"GET", "/live", live, true},
          {"GET", "/metrics", send_metrics},
          {"GET", "/openapi.json", send_openapi}};
}

}  // namespace ingot::serve
