#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ingot/base/error.h"
#include "ingot/train/reporter.h"

namespace ingot {

std::shared_ptr<Reporter> make_console_reporter();
std::shared_ptr<Reporter> make_dashboard_reporter();
std::shared_ptr<Reporter> make_html_reporter();
std::shared_ptr<Reporter> make_jsonl_reporter();
std::shared_ptr<Reporter> make_log_reporter();
std::shared_ptr<Reporter> make_mlflow_reporter();
std::shared_ptr<Reporter> make_tensorboard_reporter();
std::shared_ptr<Reporter> make_wandb_reporter();

namespace {

struct Row {
  std::string name;
  ReporterMaker make;
};
std::vector<Row>& table() {
  static std::vector<Row> rows{{"jsonl", make_jsonl_reporter},     {"tensorboard", make_tensorboard_reporter},
                               {"html", make_html_reporter},       {"wandb", make_wandb_reporter},
                               {"mlflow", make_mlflow_reporter},   {"log", make_log_reporter},
                               {"console", make_console_reporter}, {"dashboard", make_dashboard_reporter}};
  return rows;
}

}  // namespace

void register_reporter(const std::string& name, ReporterMaker make) {
  const std::vector<std::string> known = reporter_names();
  INGOT_CHECK(std::ranges::find(known, name) == known.end(),
              InvalidConfig("reporter", fmt::format("'{}' is there already", name)));
  table().push_back({name, std::move(make)});
}

std::vector<std::string> reporter_names() {
  std::vector<std::string> names;
  for (const Row& row : table()) names.push_back(row.name);
  names.emplace_back("none");
  return names;
}

std::vector<std::shared_ptr<Reporter>> make_reporters(const std::vector<std::string>& names) {
  const std::vector<std::string> known = reporter_names();
  for (const std::string& name : names)
    INGOT_CHECK(
        std::ranges::find(known, name) != known.end(),
        InvalidConfig("report_to", fmt::format("'{}' is not one of {}", name, fmt::join(known, ", "))));
  std::vector<std::shared_ptr<Reporter>> reporters;
  for (const Row& row : table())
    if (std::ranges::find(names, row.name) != names.end()) reporters.push_back(row.make());
  return reporters;
}

}  // namespace ingot
