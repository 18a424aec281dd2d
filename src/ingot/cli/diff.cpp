#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/json.h"
#include "ingot/base/printable.h"
#include "ingot/cli/commands.h"
#include "ingot/cli/text_table.h"
#include "ingot/train/diff_runs.h"

namespace ingot::cli {
namespace {

using Json = nlohmann::ordered_json;

struct DiffOptions {
  std::string left, right;
  bool json = false;
};

Json as_object(const std::vector<RunDifference>& rows) {
  Json object = Json::object();
  for (const RunDifference& row : rows) object[row.what] = Json::array({row.left, row.right});
  return object;
}

// Long values that begin alike, as command lines and paths do, from the word or the part of the path in which
// they differ: columns are narrow.
RunDifference from_first_difference(RunDifference row) {
  constexpr std::size_t kShort = 24;
  const auto common =
      static_cast<std::size_t>(std::ranges::mismatch(row.left, row.right).in1 - row.left.begin());
  const std::size_t word = common == 0 ? std::string::npos : row.left.find_last_of(" /", common - 1);
  if (word == std::string::npos || word < kShort) return row;
  for (std::string* value : {&row.left, &row.right}) *value = "…" + value->substr(word);
  return row;
}

void print_part(const char* title, const std::vector<RunDifference>& rows, const FinishedRun& left,
                const FinishedRun& right) {
  if (rows.empty()) return;
  ReportTable table{.title = title, .columns = {"", left.name, right.name}, .rows = {}};
  for (const RunDifference& row : rows) {
    const RunDifference shown = from_first_difference(row);
    table.rows.push_back({shown.what, shown.left, shown.right});
  }
  print_text_table(table);
}

void print_diff(const RunDiff& diff, const FinishedRun& left, const FinishedRun& right) {
  print_part("Configuration", diff.configuration, left, right);
  print_part("Data", diff.data, left, right);
  print_part("Build and machine", diff.machine, left, right);
  print_part("Metrics", diff.metrics, left, right);
  if (diff.same_experiment()) fmt::print("Configuration and data are the same.\n");
  for (const FinishedRun* run : {&left, &right})
    if (!run->metadata)
      fmt::print("{} has no {}: an earlier version of Ingot wrote it.\n", printable(run->name),
                 kRunMetadataFile);
}

int run(const DiffOptions& o) {
  std::vector<FinishedRun> runs{read_any_run(o.left), read_any_run(o.right)};
  name_runs(runs);
  const RunDiff diff = diff_runs(runs[0], runs[1]);
  if (o.json) {
    fmt::print("{}\n", printable_json(dump_json(Json{{"runs", {o.left, o.right}},
                                                     {"configuration", as_object(diff.configuration)},
                                                     {"data", as_object(diff.data)},
                                                     {"machine", as_object(diff.machine)},
                                                     {"metrics", as_object(diff.metrics)}},
                                                2)));
  } else {
    print_diff(diff, runs[0], runs[1]);
  }
  return 0;
}

}  // namespace

void add_diff(Command& root) {
  auto o = std::make_shared<DiffOptions>();
  Command command = root.subcommand(
      "diff", "Show in what two runs differ: settings, data, build, machine, and their metrics");
  command.option("run_a", o->left, "Output directory of a training run, or one of its checkpoints")
      .required();
  command.option("run_b", o->right, "The same of another run").required();
  command.flag("--json", o->json, "Print JSON");
  command.example("ingot diff out/run1 out/run2", "what differs, and what came of it");
  command.example("ingot diff out/run/checkpoint-000100 out/run/checkpoint-000200", "two moments of one run");
  command.run([o] { return run(*o); });
}

}  // namespace ingot::cli
