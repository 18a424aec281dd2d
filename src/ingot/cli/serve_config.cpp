#include "ingot/cli/serve_config.h"

#include "ingot/base/config.h"
#include "ingot/base/error.h"
#include "ingot/base/units.h"
#include "ingot/cli/run_keys.h"
#include "ingot/core/backend.h"
#include "ingot/core/device_config.h"
#include "ingot/hub/resolve.h"

namespace ingot::cli {
namespace {

using C = ServeConfig;
using Table = ConfigTable<C>;

Table::Section model_rows() {
  return {
      "Models",
      {
          {"model",
           &C::run,
           &InferenceOptions::model,
           {.doc = "Model directory (config.json, weights, tokenizer.json), a .gguf file, or a model of the "
                   "Hub."}},
          {"names",
           &C::names,
           {.aliases = {"name", "served_model_name"},
            .default_text = "the file's or folder's",
            .doc = "Names that clients ask for the model by."}},
          {"named_adapters",
           &C::named_adapters,
           {.aliases = {"named_adapter", "lora_modules"},
            .doc = "NAME=DIR: a LoRA adapter that clients ask for as a model of that name."}},
          {"embedding_model",
           &C::embedding_model,
           {.doc = "Sentence encoder (a directory) for /v1/embeddings, /v1/rerank and /v1/score."}},
          {"threads",
           &C::run,
           &InferenceOptions::threads,
           {.bounds = at_least(0), .doc = "Threads; 0: one per processor."}},
      },
  };
}

Table::Section scheduling_rows() {
  return {
      "Memory and batching",
      {
          {"kv_memory",
           &C::kv_memory,
           {.doc = "Memory for keys and values, such as 4GiB; auto: half of what is free."}},
          {"max_running",
           &C::max_running,
           {.aliases = {"max_num_seqs"},
            .bounds = at_least(0),
            .unit = "requests",
            .doc = "Requests in one step at most; 0: 16, on a GPU 256."}},
          {"max_waiting",
           &C::max_waiting,
           {.bounds = between(1, 1 << 20),
            .unit = "requests",
            .doc = "Requests that wait at most; further ones get status 429."}},
          {"prefix_cache",
           &C::prefix_cache,
           {.aliases = {"enable_prefix_caching"},
            .doc = "Read of a prompt only what no earlier one began with."}},
          {"batch_invariant",
           &C::batch_invariant,
           {.doc = "On the CPU: a request's tokens do not depend on its neighbours, at some cost."}},
      },
  };
}

Table::Section access_rows() {
  return {
      "Access",
      {
          {"host", &C::host, {.doc = "Address to listen at; beyond loopback an API key is needed."}},
          {"port", &C::port, {.bounds = between(0, 65535), .doc = "Port to listen at; 0: any that is free."}},
          {"api_keys", &C::api_keys, {.aliases = {"api_key"}, .doc = "Let in only requests with this key."}},
          {"api_key_file",
           &C::api_key_file,
           {.doc = "File of keys, one (or sha256:HASH) on each line, with rpm=N behind it so many requests a "
                   "minute; SIGHUP has it read again."}},
          {"allow_strangers", &C::allow_strangers, {.doc = "Listen beyond loopback without a key."}},
          {"cors_origins",
           &C::cors_origins,
           {.aliases = {"cors_origin", "allowed_origins"},
            .doc = "Web pages of this origin may use the server; *: all."}},
          {"allowed_hosts",
           &C::allowed_hosts,
           {.aliases = {"allowed_host"},
            .doc = "Host name, beside localhost, by which the server may be asked without a key."}},
          {"max_connections",
           &C::max_connections,
           {.bounds = between(1, 1 << 20), .doc = "Open connections at most."}},
          {"max_body", &C::max_body, {.doc = "Size of a request's body at most."}},
          {"drain",
           &C::drain,
           {.bounds = at_least(0),
            .unit = "seconds",
            .doc = "Seconds that requests have to end after SIGTERM."}},
          {"access_log", &C::access_log, {.doc = "Log a line for each request, without its content."}},
          {"log_json", &C::log_json, {.doc = "Log one JSON object per line."}},
      },
  };
}

const Table& serve_keys() {
  static const Table table{model_rows(), scheduling_rows(), access_rows()};
  return table;
}

// Half of the CPU's free memory, which others use too; most of a GPU's, which the weights will share.
std::size_t memory_for_keys_and_values(const std::string& text, Device device) {
  if (text != "auto") return parse_bytes(text, "kv_memory");
  const std::size_t free = backend(device).memory_info().free;
  return device.is_cpu() ? free / 2 : free / 5 * 2;
}

}  // namespace

ServeConfig read_serve_config(Config& config) {
  ServeConfig c;
  const ConfigReader root = config.root();
  run_keys().read(root, c.run);
  serve_keys().read(root, c);
  config.finish();
  INGOT_CHECK(!c.run.model.empty(),
              InvalidConfig("model",
                            "is missing: name a directory, a .gguf file or a model of the Hub, on the "
                            "command line or in the file of --config"));
  return c;
}

std::vector<ConfigSection> serve_reference() {
  std::vector<ConfigSection> sections = serve_keys().reference();
  const std::vector<ConfigSection> run = run_keys().reference();
  sections.insert(sections.begin() + 1, run.begin(), run.end());
  return sections;
}

serve::ServerOptions server_options(const ServeConfig& c) {
  serve::ServerOptions options;
  options.model.session = session_options(c.run);
  const Device device = choose_device(c.run.device);
  infer::EngineOptions& engine = options.model.session.engine;
  engine.kv_memory = memory_for_keys_and_values(c.kv_memory, device);
  engine.prefix_cache = c.prefix_cache;
  engine.batch_invariant = c.batch_invariant;
  engine.max_running = c.max_running > 0 ? c.max_running : device.is_cpu() ? 16 : 256;
  options.model.names = c.names;
  for (const std::string& text : c.named_adapters)
    options.model.session.named_adapters.push_back(NamedAdapter::parse(text, "named_adapters"));
  options.model.speculate = c.run.speculate;
  options.model.scheduler.max_waiting = c.max_waiting;
  if (!c.embedding_model.empty()) options.embedding_model = hub::resolve_model(c.embedding_model);
  options.http.host = c.host;
  options.http.port = static_cast<std::uint16_t>(c.port);
  options.http.max_connections = static_cast<std::size_t>(c.max_connections);
  options.http.max_body_bytes = parse_bytes(c.max_body, "max_body");
  options.access = {.keys = c.api_keys,
                    .key_file = c.api_key_file,
                    .allowed_origins = c.cors_origins,
                    .allowed_hosts = c.allowed_hosts};
  if (!c.api_key_file.empty()) serve::read_key_file(c.api_key_file);  // what is wrong with it is said at once
  options.allow_strangers = c.allow_strangers;
  options.access_log = c.access_log;
  return options;
}

}  // namespace ingot::cli
