#include "ingot/serve/server.h"

#include <thread>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/base/log.h"
#include "ingot/serve/api.h"

namespace ingot::serve {
namespace {

void log_access(const AccessRecord& record) {
  log(LogLevel::info, "ingot::serve", record.method + " " + record.path,
      {{"status", std::int64_t{record.status}},
       {"seconds", record.seconds},
       {"bytes_in", static_cast<std::int64_t>(record.bytes_in)},
       {"bytes_out", static_cast<std::int64_t>(record.bytes_out)},
       {"complete", record.complete},
       {"peer", std::string_view(record.peer)}});
}

std::unique_ptr<EmbeddingModel> open_embedding(const ServerOptions& options) {
  const std::string& path = options.embedding_model;
  if (path.empty()) return nullptr;
  return std::make_unique<EmbeddingModel>(
      path, options.embedding_name.empty() ? name_of_path(path) : options.embedding_name);
}

std::unique_ptr<ClassifierModel> open_classifier(const std::string& path) {
  return path.empty() ? nullptr : std::make_unique<ClassifierModel>(path, name_of_path(path));
}

std::vector<ServedModelOptions> all_models(const ServerOptions& options) {
  std::vector<ServedModelOptions> models{options.model};
  models.insert(models.end(), options.more_models.begin(), options.more_models.end());
  return models;
}

std::vector<std::string> first_names(const ModelPool& models) {
  std::vector<std::string> names;
  for (const ModelPool::Listed& model : models.list()) names.push_back(model.names.front());
  return names;
}

}  // namespace

void ServerOptions::validate() const {
  INGOT_CHECK(stream_interval >= 1,
              InvalidConfig("stream_interval", fmt::format("must be at least 1, got {}", stream_interval)));
  INGOT_CHECK(http.tls_cert.empty() == http.tls_key.empty(),
              InvalidConfig(http.tls_cert.empty() ? "tls_cert" : "tls_key",
                            "is missing: TLS needs a certificate (tls_cert) and its key (tls_key)"));
  INGOT_CHECK(
      !access.keys.empty() || !access.key_file.empty() || is_loopback(http.host) || allow_strangers,
      InvalidConfig("host", http.host + " lets other machines in, and there is no API key: give --api-key or "
                                        "--api-key-file, or --allow-strangers where the network is guarded "
                                        "otherwise"));
}

struct Server::Parts {
  explicit Parts(const ServerOptions& options)
      : access(options.access),
        models(all_models(options), options.pool),
        adapters(std::make_unique<AdapterLoader>(models, options.adapter_directory)),
        compile_queue(std::make_unique<WorkQueue>(options.compile)),
        embedding(open_embedding(options)),
        classifier(open_classifier(options.reranker_model)),
        metrics(first_names(models)),
        context{.models = models,
                .metrics = metrics,
                .timeline = timeline,
                .access = access,
                .adapters = *adapters,
                .compile_queue = *compile_queue,
                .embedding = embedding.get(),
                .classifier = classifier.get(),
                .connections = [this] { return http->connections(); },
                .request_seconds = std::chrono::duration<double>(options.request_timeout).count(),
                .stream_interval = options.stream_interval,
                .compile_time = options.grammar_timeout},
        api(context) {
    HttpServerOptions http_options = options.http;
    http_options.on_access = [this, logs = options.access_log](const AccessRecord& record) {
      metrics.add_http(record.status);
      if (logs) log_access(record);
    };
    http = std::make_unique<HttpServer>(http_options,
                                        [this](const std::shared_ptr<Exchange>& exchange) { api(exchange); });
    http->start();
  }
  // Nobody asks any more; then nobody answers.
  ~Parts() {
    http->stop();
    adapters.reset();  // which holds a model while it loads
    compile_queue.reset();
    models.close();
    embedding.reset();
    classifier.reset();
  }
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;

  Access access;
  ModelPool models;
  std::unique_ptr<AdapterLoader> adapters;
  std::unique_ptr<WorkQueue> compile_queue;
  std::unique_ptr<EmbeddingModel> embedding;
  std::unique_ptr<ClassifierModel> classifier;
  Metrics metrics;
  Timeline timeline;
  ApiContext context;
  Api api;
  std::unique_ptr<HttpServer> http;
};

Server::Server(const ServerOptions& options) {
  options.validate();
  parts_ = std::make_unique<Parts>(options);
}
Server::~Server() = default;

std::uint16_t Server::port() const { return parts_->http->port(); }
ModelPool& Server::models() { return parts_->models; }
const ModelPool& Server::models() const { return parts_->models; }

void Server::reload_certificate() { parts_->http->reload_certificate(); }

void Server::reload_keys() { parts_->access.reload(); }

bool Server::drain(std::chrono::milliseconds most) {
  const auto end = std::chrono::steady_clock::now() + most;
  parts_->context.draining = true;
  // Connections are taken meanwhile: who balances load asks whether we are ready.
  if (!parts_->models.wait_until_idle(most)) return false;
  parts_->http->stop_accepting();
  // What was written last is on its way still.
  while (parts_->http->answering() > 0 && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  return parts_->http->answering() == 0;
}

}  // namespace ingot::serve
