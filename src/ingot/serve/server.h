#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ingot/serve/access.h"
#include "ingot/serve/http_server.h"
#include "ingot/serve/model_pool.h"
#include "ingot/serve/work_queue.h"

namespace ingot::serve {

struct ServerOptions {
  ServedModelOptions model{};                     ///< loaded at once, and meant by requests that name none
  std::vector<ServedModelOptions> more_models{};  ///< loaded when a request asks for them
  ModelPoolOptions pool{};
  std::string embedding_model{};  ///< directory of a sentence encoder for /v1/embeddings; empty: none
  std::string reranker_model{};  ///< directory of a cross-encoder or classifier for /v1/rerank, /v1/score and
                                 ///< /classify; empty: none
  std::string embedding_name{};  ///< by which clients ask for it; empty: the last part of its path
  std::string adapter_directory{};  ///< AdapterLoader's; the models' sessions have load_adapters then
  /// Threads beside those of HTTP that compile grammars, and how many may wait for them.
  WorkQueueOptions compile{.threads = 2};
  /// That compiling a grammar may take, and that a request may wait for those of others.
  std::chrono::milliseconds grammar_timeout{10'000};
  HttpServerOptions http{};
  AccessOptions access{};
  bool allow_strangers = false;                  ///< listen beyond loopback without keys
  std::chrono::milliseconds request_timeout{0};  ///< for an answer; 0: any time
  std::int64_t stream_interval = 1;              ///< tokens of a piece of a stream at least
  bool access_log = true;                        ///< a line for each request, without its content

  /// Throws InvalidConfig naming the option.
  void validate() const;
};

/// Models behind HTTP. Serves from its construction on.
class Server {
 public:
  /// Throws as ModelPool and HttpServer do.
  explicit Server(const ServerOptions& options);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  std::uint16_t port() const;
  ModelPool& models();
  const ModelPool& models() const;
  /// Reads the file of keys again: throws as read_key_file() does, and leaves them as they were.
  void reload_keys();
  /// The same of the certificate, as HttpServer does.
  void reload_certificate();
  /// Takes no more requests, and waits for those that are there; false where the time ends before them.
  bool drain(std::chrono::milliseconds most);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace ingot::serve
