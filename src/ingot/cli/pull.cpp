#include "ingot/hub/pull.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/json.h"
#include "ingot/base/plural.h"
#include "ingot/base/printable.h"
#include "ingot/base/units.h"
#include "ingot/cli/commands.h"
#include "ingot/cli/inference.h"
#include "ingot/hub/resolve.h"
#include "ingot/hub/url.h"

namespace ingot::cli {
namespace {

struct PullOptions {
  std::string model, revision;
  hub::PullOptions pull;
  std::int64_t parallel = 4;
  bool json = false;
};

void print(const PullOptions& o, const hub::HubRepo& repo, const hub::PullResult& result) {
  std::uint64_t bytes = 0, fetched_bytes = 0, fetched = 0;
  for (const hub::PulledFile& file : result.files) {
    bytes += file.bytes;
    if (!file.fetched) continue;
    fetched_bytes += file.bytes;
    ++fetched;
  }
  if (!o.json) {
    fmt::print(stderr, "{} at {}: {}, {}; {} of them fetched now, {}\n", printable(repo.id),
               printable(result.commit.substr(0, 12)), counted(std::ssize(result.files), "file"),
               human_bytes(bytes), fetched, human_bytes(fetched_bytes));
    print_piece(result.path + "\n");
    return;
  }
  nlohmann::ordered_json files = nlohmann::ordered_json::array();
  for (const hub::PulledFile& file : result.files) {
    files.push_back({{"path", file.path}, {"bytes", file.bytes}, {"fetched", file.fetched}});
  }
  fmt::print("{}\n", printable_json(dump_json(nlohmann::ordered_json{{"repo", repo.id},
                                                                     {"revision", repo.revision},
                                                                     {"commit", result.commit},
                                                                     {"path", result.path},
                                                                     {"bytes", bytes},
                                                                     {"files", files}},
                                              2)));
}

int run(PullOptions o) {
  if (hub::is_http_url(o.model) || o.model.starts_with("s3://")) {
    INGOT_CHECK(
        o.revision.empty() && o.pull.include.empty() && o.pull.exclude.empty() && o.pull.directory.empty(),
        InvalidConfig(o.model, "is not a repository: --revision, --include, --exclude and --to need one"));
    print_piece(hub::resolve_model(o.model) + "\n");
    return 0;
  }
  hub::HubRepo repo = hub::parse_hub_repo(o.model);
  if (!o.revision.empty()) {
    INGOT_CHECK(hub::is_safe_relative_path(o.revision),
                InvalidConfig("--revision", "is not a branch, tag or commit: '" + o.revision + "'"));
    repo.revision = o.revision;
  }
  o.pull.parallel = static_cast<int>(o.parallel);
  if (o.json) o.pull.progress = ProgressOptions::Mode::quiet;
  hub::HubClient client(hub::HubOptions::from_environment());
  print(o, repo, hub::pull(client, repo, o.pull));
  return 0;
}

}  // namespace

void add_pull(Command& root) {
  auto o = std::make_shared<PullOptions>();
  Command command =
      root.subcommand("pull", "Fetch a model from the Hugging Face Hub, into the cache that its tools share");
  command.option("repo", o->model, "org/name, hf://org/name@revision, or an https:// or s3:// address")
      .required();
  command.option("--revision", o->revision, "Branch, tag or commit (default: main)");
  command.option("--include", o->pull.include, "Only files that match, as '*.json' (may be repeated)");
  command.option("--exclude", o->pull.exclude, "No files that match (may be repeated)");
  command.option("--to", o->pull.directory, "Put plain files into this directory instead of the cache");
  command.option("--parallel", o->parallel, "Files to fetch at one time");
  command.flag("--json", o->json, "No progress bar; print what was fetched as JSON");
  command.example("ingot pull Qwen/Qwen3-0.6B",
                  "configuration, tokenizer and safetensors; prints where they are");
  command.example("ingot generate Qwen/Qwen3-0.6B -p 'Once'", "any command finds it by name from then on");
  command.example("ingot pull org/name-GGUF --include '*Q4_K_M*'", "one file of a repository with many");
  command.example("HF_TOKEN=... ingot pull org/private", "a repository that needs an account");
  command.run([o] { return run(*o); });
}

}  // namespace ingot::cli
