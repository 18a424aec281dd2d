#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ingot/serve/access.h"
#include "ingot/serve/adapter_loader.h"
#include "ingot/serve/answer.h"
#include "ingot/serve/classifier_model.h"
#include "ingot/serve/embedding_model.h"
#include "ingot/serve/fields.h"
#include "ingot/serve/http.h"
#include "ingot/serve/metrics.h"
#include "ingot/serve/model_pool.h"
#include "ingot/serve/timeline.h"
#include "ingot/serve/work_queue.h"

namespace ingot::serve {

/// What handlers share.
struct ApiContext {
  ModelPool& models;
  Metrics& metrics;
  Timeline& timeline;
  const Access& access;
  AdapterLoader& adapters;
  WorkQueue& compile_queue;               ///< of what takes long before a request's first step: grammars
  EmbeddingModel* embedding = nullptr;    ///< null: none is served
  ClassifierModel* classifier = nullptr;  ///< likewise
  std::function<std::size_t()> connections;
  double request_seconds = 0;                      ///< that an answer may take; 0: any time
  std::int64_t stream_interval = 1;                ///< tokens of a piece of a stream at least
  std::chrono::milliseconds compile_time{10'000};  ///< that a grammar may take, and may wait
  std::atomic<bool> draining{false};
};

using RouteHandler = void (*)(ApiContext&, const std::shared_ptr<Exchange>&);

/// A path that ends in "/" stands for all that begin with it.
struct Route {
  std::string_view method, path;
  RouteHandler handler;
  bool open = false;   ///< without a key
  bool admin = false;  ///< with a key of that right alone, where there are keys
  std::string (*error_body)(const ApiError&) = error_json;  ///< in the shape of the route's API
};

/// Finds the route of a request and calls it; every error becomes an answer in the shape of its API. A
/// request whose model is not loaded is handled once it is.
class Api {
 public:
  explicit Api(ApiContext& context);
  void operator()(const std::shared_ptr<Exchange>& exchange) const;

 private:
  const Route& route_of(const HttpRequest& request) const;
  HttpResponse error_answer(const HttpRequest& request) const;
  void call(const Route& route, const std::shared_ptr<Exchange>& exchange) const;

  ApiContext& context_;
  std::vector<Route> routes_;
};

/// The model that a request asks for, and the name that it has there.
struct AskedModel {
  ModelLease model;
  std::string name;
};

/// By the field `model`, the first model where there is none. Throws as ModelPool::lease() and
/// Access::check_model() do.
AskedModel asked_model(const ApiContext& context, const HttpRequest& request, const Fields& body);
AskedModel asked_model(const ApiContext& context, const HttpRequest& request, const std::string& name);
/// The embedding model, by the name that the client asked for; ApiError 404 where there is none such.
EmbeddingModel& embedding_model(const ApiContext& context, const HttpRequest& request, const Fields& body);
/// Counts the tokens of a request's texts, which were read, for its key.
void charge_tokens(const ApiContext& context, const HttpRequest& request, std::size_t tokens);
/// An error with this body, and the headers that tell when to come again.
HttpResponse error_response(const ApiError& error, std::string body);
/// Ollama's: the message alone.
std::string ollama_error_json(const ApiError& error);
/// Ollama's "model:latest" is "model".
std::string without_latest(std::string name);
/// ApiError 503 once the server shuts down.
void check_draining(const ApiContext& context);

/// The routes of each API.
std::vector<Route> openai_routes();
std::vector<Route> messages_routes();
std::vector<Route> ollama_routes();
std::vector<Route> responses_routes();
std::vector<Route> embedding_routes();
std::vector<Route> rerank_routes();
std::vector<Route> adapter_routes();
std::vector<Route> operation_routes();
std::vector<Route> web_page_routes();
/// All of them.
std::vector<Route> all_routes();

}  // namespace ingot::serve
