#include "ingot/cli/serve_config.h"

#include <algorithm>

#include "ingot/base/config.h"
#include "ingot/base/error.h"
#include "ingot/base/units.h"
#include "ingot/cli/run_keys.h"
#include "ingot/core/backend.h"
#include "ingot/core/device_config.h"
#include "ingot/core/host_memory.h"
#include "ingot/hub/resolve.h"

namespace ingot::cli {
namespace {

using C = ServeConfig;
using M = ServedModelSettings;
using Table = ConfigTable<C>;

Table::Section model_rows() {
  return {
      "Models",
      {
          {"model",
           &C::model,
           &M::run,
           &InferenceOptions::model,
           {.doc = "Model directory (config.json, weights, tokenizer.json), a .gguf file, or a model of the "
                   "Hub."}},
          {"names",
           &C::model,
           &M::names,
           {.aliases = {"name", "served_model_name"},
            .default_text = "the file's or folder's",
            .doc = "Names that clients ask for the model by."}},
          {"named_adapters",
           &C::model,
           &M::named_adapters,
           {.aliases = {"named_adapter", "lora_modules"},
            .doc = "NAME=DIR: a LoRA adapter that clients ask for as a model of that name."}},
          {"adapter_directory",
           &C::adapter_directory,
           {.doc = "Directory below which requests may load adapters from, and unload any; without it they "
                   "may not."}},
          {"max_adapters",
           &C::max_adapters,
           {.aliases = {"max_loras"},
            .bounds = at_least(0),
            .doc = "Named adapters of a model at a time; 0: any number."}},
          {"adapters_memory",
           &C::adapters_memory,
           {.doc = "Memory for named adapters of a model, such as 1GiB; where they have more, the least "
                   "recently used one is read again when it is asked for; auto: a sixteenth of what is free, "
                   "shared by all models."}},
          Table::Field::documented(
              "models", "a list of mappings",
              {.doc = "Models that are loaded when a request asks for them; without `model` the first is "
                      "loaded at once, and answers requests that name none."}),
          {"model_memory",
           &C::model_memory,
           {.doc = "Memory for the weights, keys and values of all loaded models, such as 24GiB; the least "
                   "recently used goes for another."}},
          {"unload_after",
           &C::unload_after,
           {.bounds = at_least(0),
            .unit = "seconds",
            .doc = "Unload a model that nobody asked for in so many seconds; 0: never."}},
          {"embedding_model",
           &C::embedding_model,
           {.doc = "Sentence encoder (a directory) for /v1/embeddings, and for /v1/rerank and /v1/score."}},
          {"reranker_model",
           &C::reranker_model,
           {.doc = "Cross-encoder or classifier (a directory) for /v1/rerank, /v1/score and /classify."}},
          {"threads",
           &C::model,
           &M::run,
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
           &C::model,
           &M::kv_memory,
           {.doc = "Memory for keys and values, such as 4GiB; auto: half of what is free, shared by all "
                   "models."}},
          {"max_running",
           &C::max_running,
           {.aliases = {"max_num_seqs"},
            .bounds = at_least(0),
            .unit = "requests",
            .doc = "Requests in one step at most; 0: 32, on a GPU 256."}},
          {"max_waiting",
           &C::max_waiting,
           {.bounds = between(1, 1 << 20),
            .unit = "requests",
            .doc = "Requests that wait at most; further ones get status 429."}},
          {"request_timeout",
           &C::request_timeout,
           {.bounds = at_least(0),
            .unit = "seconds",
            .doc = "Seconds that an answer may take, from its request on; 0: any time."}},
          {"grammar_timeout",
           &C::grammar_timeout,
           {.bounds = between(1, 3600),
            .unit = "seconds",
            .doc = "Seconds that compiling a schema, expression or grammar may take (then: status 400), and "
                   "that a request may wait for those of others (503)."}},
          {"stream_interval",
           &C::stream_interval,
           {.bounds = between(1, 1024),
            .unit = "tokens",
            .doc = "Tokens of each piece of a stream but the first and the last, at least."}},
          {"prefix_cache",
           &C::prefix_cache,
           {.aliases = {"enable_prefix_caching"},
            .doc = "Read of a prompt only what no earlier one began with."}},
          {"prompt_cache",
           &C::prompt_cache,
           {.doc = "Directory for keys and values of prompts, which survive a restart there."}},
          {"prompt_cache_size",
           &C::prompt_cache_size,
           {.doc = "Size of that directory at most; the least recently used go first."}},
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
           {.doc =
                "File of keys, one (or sha256:HASH) on each line. Behind it rpm=N allows N requests a "
                "minute, tpm=N and tpd=N allow N tokens a minute and a day, models=A,B allows these models "
                "alone. priority=N goes before larger ones, and with admin the key may load adapters. "
                "SIGHUP has the file read again."}},
          {"allow_strangers", &C::allow_strangers, {.doc = "Listen beyond loopback without a key."}},
          {"cors_origins",
           &C::cors_origins,
           {.aliases = {"cors_origin", "allowed_origins"},
            .doc = "Web pages of this origin may use the server; *: all."}},
          {"allowed_hosts",
           &C::allowed_hosts,
           {.aliases = {"allowed_host"},
            .doc = "Host name, beside localhost, by which the server may be asked without a key."}},
          {"tls_cert",
           &C::tls_cert,
           {.aliases = {"ssl_certfile"},
            .doc = "PEM file of a certificate, with those between it and the root: the server speaks HTTPS "
                   "alone. SIGHUP has it read again."}},
          {"tls_key", &C::tls_key, {.aliases = {"ssl_keyfile"}, .doc = "PEM file of the certificate's key."}},
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

// An item of `models`, beside run_keys().
const ConfigTable<M>& model_keys() {
  static const ConfigTable<M> table{
      {{"An item of models, which may have the keys of how a model is run, too",
        {{"path",
          &M::run,
          &InferenceOptions::model,
          {.aliases = {"model"},
           .default_text = "required",
           .doc = "Model directory, a .gguf file, or a model of the Hub."}},
         {"names",
          &M::names,
          {.aliases = {"name"},
           .default_text = "the file's or folder's",
           .doc = "Names that clients ask for the model by."}},
         {"named_adapters",
          &M::named_adapters,
          {.aliases = {"named_adapter", "lora_modules"},
           .doc = "NAME=DIR: a LoRA adapter that clients ask for as a model of that name."}},
         {"kv_memory", &M::kv_memory, {.doc = "Memory for this model's keys and values."}}}}},
      "models.N"};
  return table;
}

const Table& serve_keys() {
  static const Table table{model_rows(), scheduling_rows(), access_rows()};
  return table;
}

// Half of the CPU's free memory, which others use too; most of a GPU's, which the weights will share. All
// models have the same share.
std::size_t memory_for_keys_and_values(const std::string& text, Device device, std::size_t models) {
  if (text != "auto") return parse_bytes(text, "kv_memory");
  const std::size_t free = backend(device).memory_info().free;
  return (has_host_memory(device) ? free / 2 : free / 5 * 2) / models;
}

std::size_t memory_for_adapters(const std::string& text, Device device, std::size_t models) {
  if (text != "auto") return parse_bytes(text, "adapters_memory");
  return std::max<std::size_t>(1, backend(device).memory_info().free / 16 / models);
}

std::vector<M> read_models(const ConfigReader& root, const InferenceOptions& common) {
  std::vector<M> models;
  for (const ConfigReader& reader : root.sections("models")) {
    M& model = models.emplace_back(M{.run = common});
    model.run.model.clear();
    model.run.adapters.clear();
    model.run.draft_model.clear();
    run_keys().read(reader, model.run);
    model_keys().read(reader, model);
    if (model.run.model.empty()) reader.fail("path", "is missing: the model to serve");
  }
  return models;
}

serve::ServedModelOptions model_options(const M& settings, const ServeConfig& c) {
  serve::ServedModelOptions options{.session = session_options(settings.run), .names = settings.names};
  const Device device = choose_device(options.session.device);
  infer::EngineOptions& engine = options.session.engine;
  // Each rank has its part of a model's keys and values in the memory of its own machine, or of all ranks'.
  const std::size_t sharing =
      (1 + c.more_models.size()) * static_cast<std::size_t>(settings.run.tensor_parallel_size);
  engine.kv_memory = memory_for_keys_and_values(settings.kv_memory, device, sharing);
  engine.prefix_cache = c.prefix_cache;
  engine.prompt_store.directory = c.prompt_cache;
  engine.prompt_store.bytes = parse_bytes(c.prompt_cache_size, "prompt_cache_size");
  engine.batch_invariant = c.batch_invariant;
  engine.max_running = c.max_running > 0 ? c.max_running : has_host_memory(device) ? 32 : 256;
  for (const std::string& text : settings.named_adapters)
    options.session.named_adapters.push_back(NamedAdapter::parse(text, "named_adapters"));
  options.session.load_adapters = !c.adapter_directory.empty();
  options.session.adapters_memory = memory_for_adapters(c.adapters_memory, device, 1 + c.more_models.size());
  options.session.max_adapters = static_cast<std::size_t>(c.max_adapters);
  options.speculate = speculated_tokens(settings.run);
  options.scheduler.max_waiting = c.max_waiting;
  return options;
}

// Ranks load their parts of one model, and keep them.
void check_tensor_parallel(const ServeConfig& c) {
  const auto is_split = [](const M& model) { return model.run.tensor_parallel_size > 1; };
  if (!is_split(c.model) && std::ranges::none_of(c.more_models, is_split)) return;
  INGOT_CHECK(c.more_models.empty(),
              InvalidConfig("tensor_parallel_size",
                            "takes one model, and `models` has several; start a server for "
                            "each"));
  INGOT_CHECK(
      c.unload_after == 0,
      InvalidConfig("unload_after", "must be 0 with tensor_parallel_size: other ranks keep their part"));
}

}  // namespace

ServeConfig read_serve_config(Config& config) {
  ServeConfig c;
  const ConfigReader root = config.root();
  run_keys().read(root, c.model.run);
  serve_keys().read(root, c);
  c.more_models = read_models(root, c.model.run);
  config.finish();
  if (c.model.run.model.empty() && !c.more_models.empty()) {
    c.model = std::move(c.more_models.front());
    c.more_models.erase(c.more_models.begin());
  }
  INGOT_CHECK(!c.model.run.model.empty(),
              InvalidConfig("model",
                            "is missing: name a directory, a .gguf file or a model of the Hub, on the "
                            "command line or in the file of --config"));
  check_tensor_parallel(c);
  return c;
}

std::vector<ConfigSection> serve_reference() {
  std::vector<ConfigSection> sections = serve_keys().reference();
  const std::vector<ConfigSection> run = run_keys().reference();
  sections.insert(sections.begin() + 1, run.begin(), run.end());
  const std::vector<ConfigSection> items = model_keys().reference();
  sections.insert(sections.begin() + 2, items.begin(), items.end());
  return sections;
}

serve::ServerOptions server_options(const ServeConfig& c) {
  serve::ServerOptions options;
  options.model = model_options(c.model, c);
  for (const M& model : c.more_models) options.more_models.push_back(model_options(model, c));
  if (c.model_memory != "unlimited") options.pool.memory = parse_bytes(c.model_memory, "model_memory");
  options.pool.unload_after = std::chrono::seconds(c.unload_after);
  if (!c.embedding_model.empty()) options.embedding_model = hub::resolve_model(c.embedding_model);
  if (!c.reranker_model.empty()) options.reranker_model = hub::resolve_model(c.reranker_model);
  options.adapter_directory = c.adapter_directory;
  options.http.host = c.host;
  options.http.port = static_cast<std::uint16_t>(c.port);
  options.http.tls_cert = c.tls_cert;
  options.http.tls_key = c.tls_key;
  options.http.max_connections = static_cast<std::size_t>(c.max_connections);
  options.http.max_body_bytes = parse_bytes(c.max_body, "max_body");
  options.access = {.keys = c.api_keys,
                    .key_file = c.api_key_file,
                    .allowed_origins = c.cors_origins,
                    .allowed_hosts = c.allowed_hosts};
  if (!c.api_key_file.empty()) serve::read_key_file(c.api_key_file);  // what is wrong with it is said at once
  options.request_timeout = std::chrono::seconds(c.request_timeout);
  options.stream_interval = c.stream_interval;
  options.grammar_timeout = std::chrono::seconds(c.grammar_timeout);
  options.allow_strangers = c.allow_strangers;
  options.access_log = c.access_log;
  return options;
}

}  // namespace ingot::cli
