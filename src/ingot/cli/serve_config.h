#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ingot/base/config_table.h"
#include "ingot/cli/inference.h"
#include "ingot/serve/server.h"

namespace ingot::cli {

/// A model that is served.
struct ServedModelSettings {
  InferenceOptions run;
  std::vector<std::string> names, named_adapters;
  std::string kv_memory = "auto";
};

/// What `ingot serve` is told, by its options and a file.
struct ServeConfig {
  ServedModelSettings model;                     ///< loaded at once
  std::vector<ServedModelSettings> more_models;  ///< loaded when they are asked for
  std::string model_memory = "unlimited";
  std::int64_t unload_after = 0;
  std::string adapter_directory;
  std::int64_t max_adapters = 0;
  std::string adapters_memory = "auto";
  std::string embedding_model, reranker_model;
  std::string host = "127.0.0.1", max_body = "16MiB";
  std::int64_t port = 8000, max_connections = 1024, drain = 30;
  std::vector<std::string> cors_origins, allowed_hosts, api_keys;
  std::string api_key_file, tls_cert, tls_key;
  bool allow_strangers = false;
  std::int64_t max_running = 0, max_waiting = 256, request_timeout = 0, grammar_timeout = 10,
               stream_interval = 1;
  bool prefix_cache = true, batch_invariant = false;
  std::string prompt_cache, prompt_cache_size = "4GiB";
  bool access_log = true, log_json = false;
};

/// Throws InvalidConfig naming the key.
ServeConfig read_serve_config(Config& config);

/// All keys, for help and the reference pages.
std::vector<ConfigSection> serve_reference();

/// Finds models (hub::resolve_model), reads the file of keys once, and sets the number of threads.
serve::ServerOptions server_options(const ServeConfig& config);

}  // namespace ingot::cli
