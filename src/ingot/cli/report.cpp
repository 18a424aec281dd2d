#include "ingot/base/report.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "ingot/base/error.h"
#include "ingot/base/json.h"
#include "ingot/base/printable.h"
#include "ingot/base/progress.h"
#include "ingot/cli/arguments.h"
#include "ingot/cli/commands.h"
#include "ingot/cli/text_table.h"
#include "ingot/train/compare_runs.h"

namespace ingot::cli {
namespace {

using Json = nlohmann::ordered_json;

struct ReportOptions {
  std::vector<std::string> runs;
  std::string output = "comparison.html";
  bool json = false;
};

Json number_or_null(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

void print_json(const ReportOptions& o, const std::vector<FinishedRun>& runs) {
  Json list = Json::array(), differences = Json::object();
  for (const FinishedRun& run : runs) {
    const auto& steps = run.history.steps();
    list.push_back({{"name", run.name},
                    {"directory", run.directory},
                    {"steps", steps.empty() ? 0 : steps.back().step},
                    {"best_validation_loss", number_or_null(run.best_validation())},
                    {"last_validation_loss", number_or_null(run.last_validation())}});
  }
  for (const auto& row : differing_settings(runs).rows)
    differences[row[0]] = std::vector<std::string>(row.begin() + 1, row.end());
  fmt::print("{}\n", printable_json(dump_json(
                         Json{{"runs", list}, {"differences", differences}, {"report", o.output}}, 2)));
}

int run(const ReportOptions& o) {
  check_ending("--output", o.output, {".html", ".htm"});
  const std::vector<FinishedRun> runs = read_runs(o.runs);
  const Report report = compare_runs(runs);
  write_report(o.output, report);
  if (is_standard_output(o.output)) return 0;
  if (o.json) {
    print_json(o, runs);
    return 0;
  }
  for (const ReportTable& table : report.tables) print_text_table(table);
  fmt::print("{}\n", printable(o.output));
  return 0;
}

}  // namespace

void add_report(Command& root) {
  auto o = std::make_shared<ReportOptions>();
  Command command = root.subcommand(
      "report", "Lay the curves of several runs over each other, with what differs in their settings");
  command.option("run", o->runs, "Output directories of training runs, or of a study's trials").required();
  command.option("-o,--output", o->output, "Page to write, .html").placeholder("FILE");
  command.flag("--json", o->json, "Print results and differences as JSON");
  command.example("ingot report out/run1 out/run2 -o comparison.html", "one page, and two tables here");
  command.example("ingot report study-trials/trial-*", "the trials that a study has kept");
  command.run([o] { return run(*o); });
}

}  // namespace ingot::cli
