#include <chrono>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "ingot/base/env.h"
#include "ingot/base/error.h"
#include "ingot/base/json.h"
#include "ingot/base/printable.h"
#include "ingot/base/units.h"
#include "ingot/cli/commands.h"
#include "ingot/cli/help_page.h"
#include "ingot/cli/text_table.h"
#include "ingot/hub/cache_contents.h"
#include "ingot/hub/hub_client.h"

namespace ingot::cli {
namespace {

using hub::CacheEntry;
using Entries = std::vector<CacheEntry>;

struct CacheOptions {
  std::vector<std::string> names;
  std::string max;
  bool dry_run = false, json = false;
};

Entries everything() {
  return hub::list_cache(hub::HubOptions::from_environment().cache_directory, cache_directory());
}

std::uint64_t bytes_of(const Entries& entries) {
  std::uint64_t bytes = 0;
  for (const CacheEntry& entry : entries) bytes += entry.bytes;
  return bytes;
}

std::string used(const CacheEntry& entry) {
  using std::chrono::system_clock;
  const double now = std::chrono::duration<double>(system_clock::now().time_since_epoch()).count();
  const double days = (now - static_cast<double>(entry.last_used)) / 86400;
  if (entry.in_use) return "now";
  if (days < 1) return "today";
  return days < 2 ? "1 day ago" : fmt::format("{} days ago", static_cast<std::int64_t>(days));
}

void print_table(const Entries& entries) {
  if (!entries.empty()) fmt::print("{:>9}  {:<14}  {:<7}  {}\n", "size", "last used", "kind", "name");
  for (const CacheEntry& entry : entries) {
    fmt::print("{}\n", cut_on_terminal(fmt::format("{:>9}  {:<14}  {:<7}  {}", human_bytes(entry.bytes),
                                                   used(entry), entry.kind, printable(entry.name))));
  }
}

void print_json(const char* list, const Entries& entries, std::uint64_t total) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const CacheEntry& entry : entries) {
    rows.push_back({{"name", entry.name},
                    {"kind", entry.kind},
                    {"bytes", entry.bytes},
                    {"last_used", entry.last_used},
                    {"path", entry.path}});
  }
  fmt::print("{}\n", printable_json(dump_json(nlohmann::ordered_json{{list, rows}, {"bytes", total}}, 2)));
}

int list(const CacheOptions& o) {
  const Entries entries = everything();
  if (o.json) {
    print_json("entries", entries, bytes_of(entries));
    return 0;
  }
  print_table(entries);
  const std::string sum = fmt::format("{} in {} {}: {} and {}", human_bytes(bytes_of(entries)),
                                      entries.size(), entries.size() == 1 ? "entry" : "entries",
                                      printable(hub::HubOptions::from_environment().cache_directory),
                                      printable(cache_directory()));
  fmt::print("{}\n", wrap_on_terminal(sum, 2, STDOUT_FILENO));
  return 0;
}

int remove(const CacheOptions& o, const Entries& chosen) {
  if (!o.dry_run) {
    for (const CacheEntry& entry : chosen) remove_entry(entry);
  }
  if (o.json) {
    print_json("removed", chosen, bytes_of(chosen));
    return 0;
  }
  print_table(chosen);
  fmt::print("{} {}\n", human_bytes(bytes_of(chosen)), o.dry_run ? "would be freed" : "freed");
  return 0;
}

int remove_named(const CacheOptions& o) {
  const Entries entries = everything();
  Entries chosen;
  for (const std::string& name : o.names) {
    for (CacheEntry& entry : hub::find_entries(entries, name)) chosen.push_back(std::move(entry));
  }
  return remove(o, chosen);
}

int prune(const CacheOptions& o) {
  return remove(o, hub::choose_to_prune(everything(), parse_bytes(o.max, "--max")));
}

void add_output_flags(Command& command, CacheOptions& o) {
  command.flag("--dry-run", o.dry_run, "Only show what would be removed");
  command.flag("--json", o.json, "Print what was removed as JSON");
}

}  // namespace

void add_cache(Command& root) {
  auto o = std::make_shared<CacheOptions>();
  Command command =
      root.subcommand("cache", "Show and remove what was fetched: models, files, prepacked weights");
  command.example("ingot cache list", "what is kept, and its size");
  Command list_command = command.subcommand("list", "What is kept, with its size and when it was last used");
  list_command.flag("--json", o->json, "Print the entries as JSON");
  list_command.example("ingot cache list", "the Hub's cache and Ingot's own");
  list_command.run([o] { return list(*o); });
  Command rm = command.subcommand("rm", "Remove models or files by name, with all their revisions");
  rm.option("name", o->names, "org/name, an address, or a file, as `ingot cache list` names it").required();
  add_output_flags(rm, *o);
  rm.example("ingot cache rm Qwen/Qwen3-0.6B", "it can be fetched again");
  rm.run([o] { return remove_named(*o); });
  Command pruning = command.subcommand("prune", "Remove what was used longest ago until the rest fits");
  pruning.option("--max", o->max, "How much may stay: 50GB, 500MiB, 0").required();
  add_output_flags(pruning, *o);
  pruning.example("ingot cache prune --max 50GB", "what is being fetched meanwhile stays");
  pruning.example("ingot cache prune --max 50GB --dry-run", "show it first");
  pruning.run([o] { return prune(*o); });
}

}  // namespace ingot::cli
