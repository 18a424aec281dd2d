#include "ingot/train/step_origins.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/json.h"

namespace ingot {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* kFolder = "origins";
constexpr std::string_view kPrefix = "step-";

std::string anomaly_path(const std::string& output_dir) { return output_dir + "/anomaly.json"; }
std::string step_path(const std::string& output_dir, std::int64_t step) {
  return fmt::format("{}/{}/{}{:06}.json", output_dir, kFolder, kPrefix, step);
}

Json to_json(const Origin& origin) {
  Json json = Json::object();
  if (!origin.op.empty()) json["op"] = origin.op;
  if (!origin.module.empty()) json["module"] = origin.module;
  json["dtype"] = name(origin.dtype);
  json["shape"] = origin.shape.to_vector();
  if (origin.values.has_value() && origin.values->elements > 0)
    json["values"] = {{"least", origin.values->least},
                      {"largest", origin.values->largest},
                      {"not_finite", origin.values->not_finite}};
  return json;
}

// Operands are numbers of ops of the same file, or leaves; null: an operand that is not there.
Json to_json(const StepOrigins& origins) {
  std::set<std::int64_t> there;
  for (const auto& op : origins.ops) there.insert(op->number);
  Json ops = Json::array();
  for (const auto& op : origins.ops) {
    Json json{{"number", op->number}};
    json.update(to_json(*op));
    Json& inputs = json["inputs"] = Json::array();
    for (const auto& input : op->inputs) {
      if (input == nullptr) {
        inputs.push_back(nullptr);
      } else if (there.contains(input->number) && input->number > 0) {
        inputs.push_back(input->number);
      } else {
        inputs.push_back(to_json(*input));
      }
    }
    ops.push_back(std::move(json));
  }
  return {{"format", "ingot.origins"},
          {"version", 1},
          {"step", origins.step},
          {"anomaly", origins.anomaly},
          {"ops", std::move(ops)}};
}

std::shared_ptr<Origin> origin_from(const Json& json, std::int64_t step) {
  auto origin = std::make_shared<Origin>();
  origin->op = json.value("op", "");
  origin->module = json.value("module", "");
  if (!origin->op.empty()) origin->step = step;
  origin->dtype = parse_dtype(json.at("dtype").get<std::string>());
  origin->shape = Shape(json.at("shape").get<std::vector<std::int64_t>>());
  origin->number = json.value("number", std::int64_t{0});
  if (json.contains("values")) {
    const Json& values = json["values"];
    origin->values = ValueRange{.least = values.at("least").get<double>(),
                                .largest = values.at("largest").get<double>(),
                                .not_finite = values.at("not_finite").get<std::int64_t>(),
                                .elements = origin->shape.numel()};
  }
  return origin;
}

StepOrigins read(const std::string& path) {
  StepOrigins origins;
  const Json json = parse_json<Json>(read_file(path), path);
  try {
    INGOT_CHECK(json.value("format", "") == "ingot.origins" && json.value("version", 0) == 1,
                FormatError(path, -1, "format", "is not version 1 of 'ingot.origins'"));
    origins.step = json.at("step").get<std::int64_t>();
    origins.anomaly = json.at("anomaly").get<bool>();
    std::map<std::int64_t, std::shared_ptr<const Origin>> by_number;
    for (const Json& op : json.at("ops")) {
      const std::shared_ptr<Origin> origin = origin_from(op, origins.step);
      for (const Json& input : op.at("inputs")) {
        if (input.is_number()) {
          const auto made = by_number.find(input.get<std::int64_t>());
          INGOT_CHECK(made != by_number.end(),
                      FormatError(path, -1, "inputs",
                                  fmt::format("op {} reads op {}, which is not before it", origin->number,
                                              input.dump())));
          origin->inputs.push_back(made->second);
        } else {
          origin->inputs.push_back(input.is_null() ? nullptr : origin_from(input, origins.step));
        }
      }
      by_number[origin->number] = origin;
      origins.ops.push_back(origin);
    }
  } catch (const Json::exception& error) {
    throw FormatError(path, -1, "ops", json_problem(error));
  }
  return origins;
}

// Depth first: what an op reads stands before it. Chains have at most a few hundred links.
void collect(const std::shared_ptr<const Origin>& origin, std::set<const Origin*>& seen,
             std::vector<std::shared_ptr<const Origin>>& ops) {
  if (origin == nullptr || origin->op.empty() || !seen.insert(origin.get()).second) return;
  for (const auto& input : origin->inputs) collect(input, seen, ops);
  ops.push_back(origin);
}

bool is_in(std::string_view module, std::string_view outer) {
  return module.starts_with(outer) && (module.size() == outer.size() || module[outer.size()] == '.');
}

}  // namespace

std::vector<std::shared_ptr<const Origin>> StepOrigins::find(std::string_view what) const {
  std::vector<std::shared_ptr<const Origin>> found;
  for (const auto& op : ops)
    if (is_in(op->module, what) || op->op == what || std::to_string(op->number) == what) found.push_back(op);
  return found;
}

void write_step_origins(const std::string& output_dir, const StepOrigins& origins) {
  if (!origins.anomaly) make_directories(output_dir + "/" + kFolder);
  write_file_atomically(origins.anomaly ? anomaly_path(output_dir) : step_path(output_dir, origins.step),
                        dump_json(to_json(origins), 1) + "\n");
}

StepOrigins origins_of(const AnomalyFound& found, std::int64_t step) {
  StepOrigins origins{.step = step, .anomaly = true, .ops = {}};
  // It was not recorded, for it threw; it comes after all that it reads.
  auto last = std::make_shared<Origin>(*found.origin);
  std::set<const Origin*> seen;
  for (const auto& input : last->inputs) collect(input, seen, origins.ops);
  for (const auto& op : origins.ops) last->number = std::max(last->number, op->number + 1);
  origins.ops.push_back(std::move(last));
  return origins;
}

void forget_anomaly(const std::string& output_dir) { fs::remove(anomaly_path(output_dir)); }

std::optional<StepOrigins> read_anomaly(const std::string& output_dir) {
  if (!fs::exists(anomaly_path(output_dir))) return std::nullopt;
  return read(anomaly_path(output_dir));
}

StepOrigins read_step_origins(const std::string& output_dir, std::int64_t step) {
  const std::vector<std::int64_t> steps = recorded_steps(output_dir);
  INGOT_CHECK(
      std::ranges::find(steps, step) != steps.end(),
      InvalidConfig("step", fmt::format("{} of {} was not recorded; there {}: {}", step, output_dir,
                                        steps.size() == 1 ? "is" : "are",
                                        steps.empty() ? "none" : fmt::format("{}", fmt::join(steps, ", ")))));
  return read(step_path(output_dir, step));
}

std::vector<std::int64_t> recorded_steps(const std::string& output_dir) {
  std::vector<std::int64_t> steps;
  const std::string folder = output_dir + "/" + kFolder;
  if (!fs::is_directory(folder)) return steps;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().stem().string();
    if (!name.starts_with(kPrefix)) continue;
    std::int64_t step = 0;
    const char* end = name.data() + name.size();
    if (std::from_chars(name.data() + kPrefix.size(), end, step).ptr == end) steps.push_back(step);
  }
  std::ranges::sort(steps);
  return steps;
}

}  // namespace ingot
