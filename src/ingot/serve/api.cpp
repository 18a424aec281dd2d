#include "ingot/serve/api.h"

#include <algorithm>
#include <exception>
#include <utility>

#include <fmt/format.h>

namespace ingot::serve {
namespace {

// Puts headers on whatever is sent.
class WithHeaders : public Exchange {
 public:
  WithHeaders(std::shared_ptr<Exchange> to, HttpHeaders headers)
      : to_(std::move(to)), headers_(std::move(headers)) {}
  const HttpRequest& request() const override { return to_->request(); }
  void send(HttpResponse response) override { to_->send(added(std::move(response))); }
  void begin(HttpResponse head) override { to_->begin(added(std::move(head))); }
  void write(std::string piece) override { to_->write(std::move(piece)); }
  void end() override { to_->end(); }
  void on_close(std::function<void()> action) override { to_->on_close(std::move(action)); }

 private:
  HttpResponse added(HttpResponse response) const {
    response.headers.insert(response.headers.end(), headers_.begin(), headers_.end());
    return response;
  }
  std::shared_ptr<Exchange> to_;
  HttpHeaders headers_;
};

bool matches(const Route& route, std::string_view path) {
  return route.path.size() > 1 && route.path.ends_with('/') ? path.starts_with(route.path)
                                                            : path == route.path;
}

// HEAD asks for the head of what GET gives.
bool takes(const Route& route, std::string_view method) {
  return route.method == method || (method == "HEAD" && route.method == "GET");
}

ApiError not_allowed(const HttpRequest& request, const std::string& allowed) {
  ApiError error(405, fmt::format("{} takes {}, not {}", request.path, allowed, request.method));
  error.allow = allowed;
  return error;
}

}  // namespace

HttpResponse error_response(const ApiError& error, std::string body) {
  HttpResponse response{.status = error.status, .body = std::move(body)};
  if (error.status == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  if (error.status == 429 || error.status == 503)
    response.headers.emplace_back("Retry-After", std::to_string(error.retry_after));
  if (!error.allow.empty()) response.headers.emplace_back("Allow", error.allow);
  return response;
}

AskedModel asked_model(const ApiContext& context, const HttpRequest& request, const std::string& name) {
  context.access.check_model(request, name);
  return {.model = context.models.lease(name), .name = name};
}

AskedModel asked_model(const ApiContext& context, const HttpRequest& request, const Fields& body) {
  return asked_model(context, request, body.string("model").value_or(context.models.default_name()));
}

void charge_tokens(const ApiContext& context, const HttpRequest& request, std::size_t tokens) {
  context.access.charge(context.access.client(request), static_cast<std::int64_t>(tokens));
}

void check_draining(const ApiContext& context) {
  if (context.draining) throw ApiError(503, "the server is shutting down", {}, "shutting_down");
}

std::vector<Route> all_routes() {
  std::vector<Route> all;
  for (const auto& routes :
       {openai_routes(), responses_routes(), embedding_routes(), rerank_routes(), messages_routes(),
        ollama_routes(), adapter_routes(), operation_routes(), web_page_routes()})
    all.insert(all.end(), routes.begin(), routes.end());
  return all;
}

Api::Api(ApiContext& context) : context_(context), routes_(all_routes()) {}

void Api::operator()(const std::shared_ptr<Exchange>& exchange) const {
  const HttpHeaders cors = context_.access.cors_headers(exchange->request());
  const auto to = cors.empty() ? exchange : std::make_shared<WithHeaders>(exchange, cors);
  if (exchange->request().method == "OPTIONS" && !cors.empty()) return to->send({.status = 204});
  try {
    call(route_of(exchange->request()), to);
  } catch (...) {
    to->send(error_answer(exchange->request()));
  }
}

// Of the exception that is being handled.
HttpResponse Api::error_answer(const HttpRequest& request) const {
  const ApiError error = to_api_error(std::current_exception());
  const auto route =
      std::ranges::find_if(routes_, [&](const Route& each) { return matches(each, request.path); });
  return error_response(error, route != routes_.end() ? route->error_body(error) : error_json(error));
}

void Api::call(const Route& route, const std::shared_ptr<Exchange>& exchange) const {
  try {
    route.handler(context_, exchange);
  } catch (const ModelPool::NotLoaded& wait) {
    context_.models.call_when_loaded(wait, [this, &route, exchange] { call(route, exchange); });
  } catch (...) {
    exchange->send(error_answer(exchange->request()));
  }
}

const Route& Api::route_of(const HttpRequest& request) const {
  std::string allowed;
  for (const Route& route : routes_) {
    if (!matches(route, request.path)) continue;
    if (takes(route, request.method)) {
      if (!route.open) context_.access.check(request);
      if (route.admin) context_.access.check_admin(request);
      return route;
    }
    allowed += (allowed.empty() ? "" : ", ") + std::string(route.method);
  }
  context_.access.check(request);  // strangers learn nothing of the routes
  if (!allowed.empty()) throw not_allowed(request, allowed);
  throw ApiError(404, fmt::format("there is no {}; GET /openapi.json lists what there is", request.path), {},
                 "not_found");
}

}  // namespace ingot::serve
