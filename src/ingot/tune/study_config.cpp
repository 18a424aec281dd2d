#include "ingot/tune/study_config.h"

#include <filesystem>

#include <fmt/format.h>

#include "ingot/base/config.h"
#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/hash.h"
#include "ingot/tune/database.h"
#include "ingot/tune/study_keys.h"

namespace ingot::tune {
namespace {

namespace fs = std::filesystem;

std::string read_metric(const ConfigReader& root, const std::string& kind) {
  if (!root.has("metric") || kind == "command") return root.get("metric", "");
  std::vector<std::string> known{"best_validation_loss"};
  if (kind == "train") known.emplace_back("validation_loss");
  return root.choice("metric", "", known);
}

void read_objective(const ConfigReader& root, const fs::path& base, StudyConfig& c) {
  std::string given;
  for (const char* kind : {"train", "forecast", "command"}) {
    if (!root.has(kind)) continue;
    if (!given.empty()) root.fail(kind, fmt::format("and {} are both given; a study tries one thing", given));
    given = kind;
  }
  INGOT_CHECK(!given.empty(),
              InvalidConfig("train",
                            "is missing: say what to try, with one of `train: base.yaml`, `forecast: "
                            "base.yaml`, `command: \"./program --rate {rate}\"`"));
  c.kind = given;
  c.objective = root.require<std::string>(given);
  std::string content;
  if (given != "command") {
    c.objective = fs::absolute(base / c.objective).lexically_normal().string();
    content = " sha256:" + sha256_hex(read_file(c.objective)).substr(0, 16);
  }
  c.set = root.get("set", c.set);
  c.set_where = root.where("set");
  if (given == "command" && !c.set.empty())
    root.fail("set", "changes a configuration, and a command has none; write it into the command");
  c.metric = read_metric(root, given);
  if (given == "command") c.timeout_seconds = root.get("timeout_seconds", 0.0, at_least(0));
  c.tuner.objective =
      fmt::format("{}: {}{}", given,
                  given == "command" ? c.objective : fs::path(c.objective).filename().string(), content);
  for (const std::string& assignment : c.set) c.tuner.objective += " " + assignment;
  if (!c.metric.empty()) c.tuner.objective += " metric:" + c.metric;
}

// Several objectives: the metrics that a command writes, each with its direction.
std::vector<Goal> read_objectives(const ConfigReader& root, const StudyConfig& c) {
  if (!root.has("objectives")) return {};
  if (!root.is_mapping("objectives"))
    root.fail("objectives",
              "expected a mapping of metrics to directions: {loss: minimize, accuracy: maximize}");
  for (const char* other : {"direction", "metric"})
    if (root.has(other)) root.fail(other, "is said by objectives; leave it out");
  if (c.kind != "command")
    root.fail("objectives",
              fmt::format("are the metrics that a command writes; a study of {} has one value", c.kind));
  return read_goals(root.section("objectives"));
}

// A path of the study's own, which starts at its directory.
std::string read_path(const ConfigReader& root, const char* key, const std::string& fallback,
                      const fs::path& base) {
  const std::string path = root.get(key, fallback);
  if (path.empty()) root.fail(key, fmt::format("is empty; leave it out for {}, or give a path", fallback));
  return (base / path).lexically_normal().string();
}

// A file, or a server's database with the name of the study behind it.
std::string read_store(const ConfigReader& root, const std::string& name, const fs::path& base) {
  const std::string given = root.get("study", "");
  if (!is_database_url(given)) return read_path(root, "study", name + ".db", base);
  return given.find('#') == std::string::npos ? given + "#" + name : given;
}

}  // namespace

std::vector<Goal> read_goals(const ConfigReader& section) {
  std::vector<Goal> goals;
  for (const std::string& metric : section.keys()) {
    const bool less = section.choice(metric, "minimize", {"minimize", "maximize"}) == "minimize";
    goals.push_back({metric, less ? Direction::minimize : Direction::maximize});
  }
  return goals;
}

std::string StudyConfig::trial_directory(std::int64_t number) const {
  return fmt::format("{}/trial-{:04}", output_dir, number);
}

std::string StudyConfig::trial_log(std::int64_t number) const { return trial_directory(number) + ".log"; }

StudyConfig read_study_config(Config& config, const std::string& path) {
  const ConfigReader root = config.root();
  const fs::path base = fs::path(path).parent_path();
  StudyConfig c;
  c.name = fs::path(path).stem().string();
  c.directory = fs::absolute(fs::path(path)).parent_path().lexically_normal().string();
  read_objective(root, base, c);
  c.tuner.direction = root.choice("direction", "minimize", {"minimize", "maximize"}) == "minimize"
                          ? Direction::minimize
                          : Direction::maximize;
  if (c.kind != "command" && c.tuner.direction != Direction::minimize)
    root.fail("direction", "a loss is to be minimized");
  c.tuner.goals = read_objectives(root, c);
  study_keys().read(root, c);
  c.tuner.space = read_search_space(root.section("space"));
  sampler_keys().read(root.section("sampler"), c.tuner.sampler);
  pruner_keys().read(root.section("pruner"), c.tuner.pruner);
  c.tuner.study = read_store(root, c.name, base);
  // Two studies of one file keep their trials apart, as trials are told by their numbers only.
  const fs::path study = is_database_url(c.tuner.study) ? base / c.name : fs::path(c.tuner.study);
  const std::string trials = fs::path(study).replace_filename(study.stem().string() + "-trials").string();
  c.output_dir = root.has("output_dir") ? read_path(root, "output_dir", trials, base) : trials;
  config.finish();
  c.tuner.validate();
  return c;
}

}  // namespace ingot::tune
