#include <algorithm>
#include <chrono>
#include <csignal>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/base/log.h"
#include "ingot/base/units.h"
#include "ingot/cli/commands.h"
#include "ingot/cli/inference.h"
#include "ingot/cli/interrupt.h"
#include "ingot/core/backend.h"
#include "ingot/core/device_config.h"
#include "ingot/hub/resolve.h"
#include "ingot/serve/server.h"

namespace ingot::cli {
namespace {

struct ServeOptions {
  InferenceOptions inference;
  std::vector<std::string> names, adapters, keys, origins, hosts;
  std::string host = "127.0.0.1", key_file, kv_memory = "auto", embedding_model;
  std::int64_t port = 8000, max_running = 0, max_waiting = 256, max_connections = 1024, drain = 30;
  std::string max_body = "16MiB";
  bool allow_strangers = false, no_prefix_cache = false, batch_invariant = false, quiet = false,
       log_json = false;
};

// Half of the CPU's free memory, which others use too; most of a GPU's, which the weights will share.
std::size_t memory_for_keys_and_values(const ServeOptions& o) {
  if (o.kv_memory != "auto") return parse_bytes(o.kv_memory, "--kv-memory");
  const Device device = choose_device(o.inference.device);
  const std::size_t free = backend(device).memory_info().free;
  return device.is_cpu() ? free / 2 : free / 5 * 2;
}

std::int64_t within(const char* option, std::int64_t value, std::int64_t least, std::int64_t most) {
  INGOT_CHECK(value >= least && value <= most,
              InvalidConfig(option, fmt::format("must be {} to {}, got {}", least, most, value)));
  return value;
}

serve::ServerOptions server_options(const ServeOptions& o) {
  serve::ServerOptions options;
  options.model.session = session_options(o.inference);
  infer::EngineOptions& engine = options.model.session.engine;
  engine.kv_memory = memory_for_keys_and_values(o);
  engine.prefix_cache = !o.no_prefix_cache;
  engine.batch_invariant = o.batch_invariant;
  const bool cpu = choose_device(o.inference.device).is_cpu();
  engine.max_running = o.max_running > 0 ? o.max_running : cpu ? 16 : 256;
  options.model.names = o.names;
  for (const std::string& text : o.adapters)
    options.model.session.named_adapters.push_back(NamedAdapter::parse(text, "--named-adapter"));
  options.model.speculate = o.inference.speculate;
  if (!o.embedding_model.empty()) options.embedding_model = hub::resolve_model(o.embedding_model);
  options.model.scheduler.max_waiting = within("--max-waiting", o.max_waiting, 1, 1 << 20);
  options.http.host = o.host;
  options.http.port = static_cast<std::uint16_t>(within("--port", o.port, 0, 65535));
  options.http.max_connections =
      static_cast<std::size_t>(within("--max-connections", o.max_connections, 1, 1 << 20));
  options.http.max_body_bytes = parse_bytes(o.max_body, "--max-body");
  options.access = {
      .keys = o.keys, .key_file = o.key_file, .allowed_origins = o.origins, .allowed_hosts = o.hosts};
  if (!o.key_file.empty()) serve::read_key_file(o.key_file);  // what is wrong with it is said at once
  options.allow_strangers = o.allow_strangers;
  options.access_log = !o.quiet;
  return options;
}

volatile std::sig_atomic_t keys_changed = 0;

// With a file of keys SIGHUP has it read again; otherwise it ends the server, as a closed terminal does.
void watch_key_file(serve::Server& server) {
  if (keys_changed == 0) return;
  keys_changed = 0;
  try {
    server.reload_keys();
    fmt::print(stderr, "The keys were read again.\n");
  } catch (const Error& error) {
    fmt::print(stderr, "The keys stay as they were: {}\n", error.what());
  }
}

int run(const ServeOptions& o) {
  const serve::ServerOptions options = server_options(o);
  options.validate();  // before the model is read
  if (o.log_json) init_logging({.json = true});
  const InterruptWatch watch;
  if (!o.key_file.empty()) std::signal(SIGHUP, [](int) { keys_changed = 1; });
  serve::Server server(options);
  const infer::EngineStats stats = server.stats();
  fmt::print(stderr,
             "Serving {} at http://{}:{} (OpenAI: base_url http://{}:{}/v1). Context {}, room for {} tokens "
             "of keys and values.\n",
             server.model().name(), o.host, server.port(), o.host, server.port(), server.model().context(),
             stats.cache.budget);
  while (!interrupted()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    watch_key_file(server);
  }
  fmt::print(stderr, "Shutting down: requests have {} s to end; again to end now.\n", o.drain);
  if (!server.drain(std::chrono::seconds(o.drain)))
    fmt::print(stderr, "The time is over; what was left is cut off.\n");
  return 0;
}

}  // namespace

void add_serve(Command& root) {
  auto o = std::make_shared<ServeOptions>();
  Command command =
      root.subcommand("serve", "Serve a model over HTTP with OpenAI's API, to many clients at once");
  add_inference_options(command, o->inference);
  command.option("--host", o->host, "Address to listen at; beyond loopback an API key is needed");
  command.option("--port", o->port, "Port to listen at; 0: any that is free");
  command.option("--name", o->names,
                 "Name that clients ask for the model by; repeatable (the file's or folder's)");
  command.option("--named-adapter", o->adapters,
                 "NAME=DIR: a LoRA adapter that clients ask for as a model of that name; repeatable");
  command.option("--embedding-model", o->embedding_model,
                 "Sentence encoder (a directory) for /v1/embeddings");
  command.option("--api-key", o->keys, "Let in only requests with this key; repeatable");
  command.option(
      "--api-key-file", o->key_file,
      "The same, a key (or sha256:HASH) on each line of a file, with rpm=N behind it so many requests "
      "a minute; SIGHUP has it read again");
  command.flag("--allow-strangers", o->allow_strangers, "Listen beyond loopback without a key");
  command.option("--cors-origin", o->origins,
                 "Web pages of this origin may use the server; *: all; repeatable");
  command.option("--allowed-host", o->hosts,
                 "Host name, beside localhost, by which the server may be asked without a key; repeatable");
  command.option("--kv-memory", o->kv_memory,
                 "Memory for keys and values, such as 4GiB; auto: half of what is free");
  command.option("--max-running", o->max_running, "Requests in one step at most; 0: 16, on a GPU 256");
  command.option("--max-waiting", o->max_waiting, "Requests that wait at most; further ones get status 429");
  command.flag("--no-prefix-cache", o->no_prefix_cache,
               "Read every prompt whole, even where it begins as another did");
  command.flag("--batch-invariant", o->batch_invariant,
               "On the CPU: a request's tokens do not depend on its neighbours, at some cost");
  command.option("--max-connections", o->max_connections, "Open connections at most");
  command.option("--max-body", o->max_body, "Size of a request's body at most");
  command.option("--drain", o->drain, "Seconds that requests have to end after SIGTERM");
  command.flag("--quiet", o->quiet, "No access log");
  command.flag("--log-json", o->log_json, "Log one JSON object per line");
  command.example("ingot serve model.gguf", "http://127.0.0.1:8000/v1 for any OpenAI client on this machine");
  command.example("ingot serve out/model --host 0.0.0.0 --api-key-file keys.txt", "serves a team");
  command.run([o] { return run(*o); });
}

}  // namespace ingot::cli
