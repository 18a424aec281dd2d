#include "ingot/train/run_metadata.h"

#include <array>
#include <chrono>
#include <ctime>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <sys/utsname.h>

#include "ingot/base/error.h"
#include "ingot/base/hash.h"
#include "ingot/base/json.h"
#include "ingot/base/parallel.h"
#include "ingot/base/secrets.h"
#include "ingot/base/shell.h"
#include "ingot/base/version.h"
#include "ingot/core/backend.h"
#include "ingot/kernels/instruction_set.h"

namespace ingot {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array kInstructionSets{"baseline", "avx2", "avx512", "avx512_vnni", "avx512_bf16", "amx"};

std::string hash_of(const std::vector<Setting>& settings) {
  Sha256 sha;
  for (const Setting& setting : settings) {
    if (setting.name == "output_dir" || setting.name == "resume_from_checkpoint") continue;
    sha.update(setting.name);
    sha.update(std::string_view("\0", 1));
    sha.update(setting.value);
    sha.update(std::string_view("\0", 1));
  }
  return sha.finish_hex();
}

Json to_object(const std::vector<std::pair<std::string, std::string>>& pairs) {
  Json object = Json::object();
  for (const auto& [name, value] : pairs) object[name] = value;
  return object;
}

Json given_or_not(const std::vector<Setting>& settings, bool given) {
  Json object = Json::object();
  for (const Setting& setting : settings)
    if (setting.given == given) object[setting.name] = setting.value;
  return object;
}

void read_settings(const Json& json, const char* key, bool given, std::vector<Setting>& settings) {
  if (!json.contains(key)) return;
  for (const auto& [name, value] : json[key].items())
    settings.push_back({name, value.get<std::string>(), given});
}

RunMetadata read(const Json& json) {
  RunMetadata m;
  const Json none = Json::object();
  const auto part = [&](const char* key) { return json.value(key, none); };
  const Json build = part("ingot"), machine = part("machine"), configuration = part("configuration"),
             seeds = part("seeds"), data = part("data");
  m.version = build.value("version", "");
  m.commit = build.value("commit", "");
  m.compiler = build.value("compiler", "");
  m.started = json.value("started", "");
  m.command = json.value("command", std::vector<std::string>());
  m.host = machine.value("host", "");
  m.system = machine.value("system", "");
  m.processor = machine.value("processor", "");
  m.device = machine.value("device", "");
  m.device_name = machine.value("device_name", "");
  m.driver = machine.value("driver", "");
  m.instruction_set = machine.value("instruction_set", "");
  m.threads = machine.value("threads", std::int64_t{0});
  m.processes = machine.value("processes", std::int64_t{1});
  for (const auto& [name, seed] : seeds.items()) m.seeds.emplace_back(name, seed.get<std::uint64_t>());
  m.configuration_hash = configuration.value("sha256", "");
  read_settings(configuration, "given", true, m.configuration);
  read_settings(configuration, "defaults", false, m.configuration);
  for (const auto& [name, print] : data.items()) m.data.emplace_back(name, print.get<std::string>());
  return m;
}

std::string command_line(const std::vector<std::string>& command) {
  std::vector<std::string> words;
  words.reserve(command.size());
  for (const std::string& word : command) words.push_back(shell_word(word));
  return fmt::format("{}", fmt::join(words, " "));
}

}  // namespace

void RunMetadata::describe_process(Device on) {
  version = ingot::version();
  compiler = ingot::compiler();
  commit = invocation().commit;
  command = invocation().command;
  started = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
  utsname names{};
  if (::uname(&names) == 0) {
    host = names.nodename;
    system = fmt::format("{} {} {}", names.sysname, names.release, names.machine);
  }
  processor = backend(kCpu).capabilities().device_name;
  device = to_string(on);
  if (!backend(on).capabilities().host_memory) {
    device_name = backend(on).capabilities().device_name;
    driver = backend(on).version();
  }
  instruction_set = kInstructionSets.at(static_cast<std::size_t>(kernels::instruction_set_limit()));
  threads = num_threads();
}

void RunMetadata::set_configuration(std::vector<Setting> settings) {
  for (Setting& setting : settings)
    setting.value = names_a_secret(setting.name) ? "***" : without_secrets(setting.value);
  configuration = std::move(settings);
  configuration_hash = configuration.empty() ? "" : hash_of(configuration);
}

std::string RunMetadata::to_json() const {
  Json seed_values = Json::object();
  for (const auto& [name, seed] : seeds) seed_values[name] = seed;
  return dump_json(Json{{"ingot", {{"version", version}, {"commit", commit}, {"compiler", compiler}}},
                        {"started", started},
                        {"command", command},
                        {"machine",
                         {{"host", host},
                          {"system", system},
                          {"processor", processor},
                          {"device", device},
                          {"device_name", device_name},
                          {"driver", driver},
                          {"instruction_set", instruction_set},
                          {"threads", threads},
                          {"processes", processes}}},
                        {"seeds", seed_values},
                        {"configuration",
                         {{"sha256", configuration_hash},
                          {"given", given_or_not(configuration, true)},
                          {"defaults", given_or_not(configuration, false)}}},
                        {"data", to_object(data)}});
}

RunMetadata RunMetadata::from_json(const std::string& text, const std::string& source) {
  const Json json = parse_json<Json>(text, source);
  INGOT_CHECK(json.is_object(), FormatError(source, -1, "run", "is not a JSON object"));
  try {
    return read(json);
  } catch (const Json::exception& error) {
    throw FormatError(source, -1, "run", error.what());
  }
}

std::vector<std::pair<std::string, std::string>> RunMetadata::rows() const {
  std::vector<std::pair<std::string, std::string>> all{
      {"ingot", version},
      {"commit", commit},
      {"compiler", compiler},
      {"started", started},
      {"command", command_line(command)},
      {"host", host},
      {"system", system},
      {"processor", processor},
      {"device", device},
      {"GPU", device_name},
      {"driver", driver},
      {"instruction set", instruction_set},
      {"threads", threads > 0 ? std::to_string(threads) : ""}};
  if (processes > 1) all.emplace_back("processes", std::to_string(processes));
  for (const auto& [name, seed] : seeds) all.emplace_back(name, std::to_string(seed));
  if (!configuration_hash.empty()) all.emplace_back("configuration", configuration_hash.substr(0, 12));
  for (const auto& [name, print] : data) all.emplace_back(name, print.substr(0, 12));
  std::erase_if(all, [](const auto& row) { return row.second.empty(); });
  return all;
}

}  // namespace ingot
