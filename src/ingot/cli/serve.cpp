#include <chrono>
#include <csignal>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ingot/base/config.h"
#include "ingot/base/error.h"
#include "ingot/base/log.h"
#include "ingot/base/printable.h"
#include "ingot/cli/commands.h"
#include "ingot/cli/config_keys.h"
#include "ingot/cli/interrupt.h"
#include "ingot/cli/key_options.h"
#include "ingot/cli/ranks.h"
#include "ingot/cli/serve_config.h"

namespace ingot::cli {
namespace {

struct ServeOptions {
  explicit ServeOptions(Command command) : given(command, serve_reference()) {}
  std::optional<std::string> keys;
  std::string config;
  std::vector<std::string> set;
  bool yes = false, json = false;
  KeyOptions given;
};

ServeConfig configuration(const ServeOptions& o) {
  Config config = o.config.empty() ? Config::parse("{}", "command line") : Config::load(o.config);
  for (const std::string& assignment : o.set) config.set(assignment);
  o.given.apply(config);
  ServeConfig c = read_serve_config(config);
  c.model.run.yes = o.yes;
  for (ServedModelSettings& model : c.more_models) model.run.yes = o.yes;
  return c;
}

volatile std::sig_atomic_t files_changed = 0;

template <class Reload>
void reload(const char* what, Reload action) {
  try {
    action();
    fmt::print(stderr, "The {} read again.\n", what);
  } catch (const Error& error) {
    fmt::print(stderr, "What SIGHUP changes stays as it was: {}\n", printable_message(error));
  }
}

// With a file of keys or a certificate SIGHUP has them read again; otherwise it ends the server, as a closed
// terminal does.
void watch_files(serve::Server& server, const ServeConfig& c) {
  if (files_changed == 0) return;
  files_changed = 0;
  if (!c.api_key_file.empty()) reload("keys were", [&] { server.reload_keys(); });
  if (!c.tls_cert.empty()) reload("certificate was", [&] { server.reload_certificate(); });
}

void tell_where(const serve::Server& server, const ServeConfig& c) {
  std::vector<std::string> names;
  for (const auto& model : server.models().list()) names.push_back(model.names.front());
  const std::string address =
      fmt::format("http{}://{}:{}", c.tls_cert.empty() ? "" : "s", c.host, server.port());
  fmt::print(
      stderr,
      "Serving {} at {} (OpenAI: base_url {}/v1). Context {}, room for {} tokens of keys and values.\n",
      printable(fmt::format("{}", fmt::join(names, ", "))), address, address,
      server.models().list().front().context, server.models().stats().front().second.cache.budget);
}

int serve(const ServeConfig& c, const serve::ServerOptions& options) {
  if (c.log_json) init_logging({.json = true});
  const InterruptWatch watch;
  if (!c.api_key_file.empty() || !c.tls_cert.empty()) std::signal(SIGHUP, [](int) { files_changed = 1; });
  serve::Server server(options);
  tell_where(server, c);
  while (!interrupted()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    watch_files(server, c);
  }
  fmt::print(stderr, "Shutting down: requests have {} s to end; again to end now.\n", c.drain);
  if (!server.drain(std::chrono::seconds(c.drain)))
    fmt::print(stderr, "The time is over; what was left is cut off.\n");
  return 0;
}

int run(const ServeOptions& o) {
  if (o.keys) return print_config_keys(serve_reference(), *o.keys, o.json);
  const ServeConfig c = configuration(o);
  serve::ServerOptions options;
  const auto session = [&] {
    options = server_options(c);
    options.validate();  // before the model is read
    return options.model.session;
  };
  return run_with_model(c.model.run, false, session,
                        [&](const infer::SessionOptions&) { return serve(c, options); });
}

void add_key_options(KeyOptions& keys) {
  for (const char* name : {"--device", "--format", "--packed-cache"}) keys.option(name);
  keys.list("--adapter", "adapters");
  keys.option("--kv-cache").one_of({"auto", "f32", "bf16", "f16", "i8"});
  for (const char* name : {"--context", "--chunk", "--speculate", "--draft-model", "--threads"})
    keys.option(name);
  keys.option("--tensor-parallel-size,--tp");
  keys.flag("--eager", "eager=true", "On a GPU: launch kernel by kernel, not the captured step of a token");
  keys.option("--host");
  keys.option("--port");
  keys.list("--name", "names");
  keys.list("--named-adapter", "named_adapters");
  keys.option("--adapter-directory");
  keys.option("--max-adapters");
  keys.option("--adapters-memory");
  keys.option("--embedding-model");
  keys.option("--reranker-model");
  keys.list("--api-key", "api_keys");
  keys.option("--api-key-file");
  for (const char* name : {"--tls-cert", "--tls-key"}) keys.option(name);
  keys.flag("--allow-strangers", "allow_strangers=true", "Listen beyond loopback without a key");
  keys.list("--cors-origin", "cors_origins");
  keys.list("--allowed-host", "allowed_hosts");
  for (const char* name : {"--model-memory", "--unload-after", "--kv-memory", "--max-running",
                           "--max-waiting", "--request-timeout"})
    keys.option(name);
  keys.flag("--no-prefix-cache", "prefix_cache=false",
            "Read every prompt whole, even where it begins as another did");
  keys.option("--prompt-cache").placeholder("DIR");
  keys.option("--prompt-cache-size");
  keys.flag("--batch-invariant", "batch_invariant=true",
            "On the CPU: a request's tokens do not depend on its neighbours, at some cost");
  for (const char* name : {"--max-connections", "--max-body", "--drain"}) keys.option(name);
  keys.flag("--quiet", "access_log=false", "No access log");
  keys.flag("--log-json", "log_json=true", "Log one JSON object per line");
}

}  // namespace

void add_serve(Command& root) {
  Command command =
      root.subcommand("serve", "Serve a model over HTTP with OpenAI's API, to many clients at once");
  auto o = std::make_shared<ServeOptions>(command);
  o->given.option("model");
  command
      .option("--config", o->config,
              "YAML file of settings; options go over it. --keys lists what it may hold")
      .placeholder("FILE");
  command.option("--set", o->set, "Change a key of the file: --set port=9000 (may be repeated)")
      .placeholder("KEY=VALUE");
  command.option("--keys", o->keys, "List the keys of the file, or those that tell of WORD, and end")
      .alone("");
  command.flag("--json", o->json, "With --keys: as JSON");
  add_key_options(o->given);
  command.flag("-y,--yes", o->yes, "Fetch a model of the Hub that is not in the cache without asking");
  command.example("ingot serve model.gguf", "http://127.0.0.1:8000/v1 for any OpenAI client on this machine");
  command.example("ingot serve out/model --host 0.0.0.0 --api-key-file keys.txt", "serves a team");
  command.example("ingot serve --config serve.yaml", "the same from a file");
  command.run([o] { return run(*o); });
}

}  // namespace ingot::cli
