#include <cmath>
#include <filesystem>
#include <functional>
#include <optional>
#include <sstream>

#include <nlohmann/json.hpp>

#include "ingot/base/files.h"
#include "ingot/base/json.h"
#include "ingot/train/reporter.h"

// metrics.jsonl: one JSON object a line; the first of each start says what the run ran with.
namespace ingot {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kValues = "values";
constexpr const char* kByLayer = "by_layer";

std::string metrics_path(const std::string& output_dir) { return output_dir + "/metrics.jsonl"; }

void put_values(Json& json, const NamedValues& values) {
  if (!values.empty()) json[kValues] = Json::object();
  for (const auto& [name, value] : values) json[kValues][name] = value;
}

NamedValues values_of(const Json& json) {
  NamedValues values;
  const auto found = json.find(kValues);
  if (found == json.end() || !found->is_object()) return values;
  for (const auto& [name, value] : found->items())
    if (value.is_number()) values.emplace_back(name, value.get<double>());
  return values;
}

LayerValues layer_values_of(const Json& json) {
  LayerValues all;
  const auto found = json.find(kByLayer);
  if (found == json.end() || !found->is_object()) return all;
  for (const auto& [name, values] : found->items()) {
    std::vector<double> numbers;
    for (const Json& value : values) numbers.push_back(value.is_number() ? value.get<double>() : NAN);
    all.emplace_back(name, std::move(numbers));
  }
  return all;
}

Json to_json(const StepRecord& r) {
  Json json{{"type", "train"},
            {"step", r.step},
            {"epoch", r.epoch},
            {"loss", r.loss},
            {"learning_rate", r.learning_rate},
            {"grad_norm", r.grad_norm},
            {"tokens_per_second", r.tokens_per_second},
            {"gflops", r.flops * 1e-9},
            {"seconds", r.seconds}};
  put_values(json, r.values);
  for (const auto& [name, values] : r.by_layer) json[kByLayer][name] = values;
  return json;
}

Json to_json(const EvalRecord& r) {
  Json json{{"type", "eval"}, {"step", r.step}, {"eval_loss", r.loss}, {"ema", r.ema}};
  put_values(json, r.values);
  return json;
}

Json to_json(const SampleRecord& r) {
  return {{"type", "sample"}, {"step", r.step}, {"prompt", r.prompt}, {"text", r.text}};
}

Json to_json(const MemoryRecord& r) {
  return {{"type", "memory"},
          {"step", r.step},
          {"ranks", r.ranks},
          {"peak_tensors", static_cast<std::uint64_t>(r.tensors.bytes)},
          {"peak_tensors_rank", r.tensors.rank},
          {"peak_resident", static_cast<std::uint64_t>(r.resident.bytes)},
          {"peak_resident_rank", r.resident.rank}};
}

Json to_json(const EventRecord& r) {
  return {{"type", "event"}, {"step", r.step}, {"event", r.kind}, {"text", r.text}};
}

// The lines up to a step. The last line of a killed process may be half a line, and is left out.
void for_each_line(const std::string& path, std::int64_t last_step,
                   const std::function<void(const std::string& line, const Json& json)>& f) {
  if (!std::filesystem::exists(path)) return;
  std::istringstream lines(read_file(path));
  for (std::string line; std::getline(lines, line);) {
    const Json json = parse_json_or_discard<Json>(line);
    if (json.is_object() && json.value("step", std::int64_t{0}) <= last_step) f(line, json);
  }
}

class JsonlReporter : public Reporter {
 public:
  void begin(const RunInfo& info) override {
    const std::string path = metrics_path(info.output_dir);
    if (std::filesystem::exists(path)) {
      std::string kept;  // a resumed run takes the later steps again; another run begins anew
      if (info.first_step > 0)
        for_each_line(path, info.first_step,
                      [&](const std::string& line, const Json&) { kept += line + "\n"; });
      write_file_atomically(path, kept);
    }
    file_.emplace(path, FileWriter::Mode::append);
    Json run{{"type", "run"}, {"step", info.first_step}};
    run.update(parse_json<Json>(info.metadata.to_json(), kRunMetadataFile));
    if (!info.value_layers.empty()) run["layers"] = info.value_layers;
    write(run);
  }
  void step(const StepRecord& record) override { write(to_json(record)); }
  void evaluation(const EvalRecord& record) override { write(to_json(record)); }
  void sample(const SampleRecord& record) override { write(to_json(record)); }
  void memory(const MemoryRecord& record) override { write(to_json(record)); }
  void event(const EventRecord& record) override { write(to_json(record)); }
  void flush() override {
    if (file_.has_value()) file_->flush();
  }
  void finish(const RunHistory&) override { flush(); }

  ~JsonlReporter() override {
    try {
      flush();
    } catch (...) {  // a full disk was reported by the write that met it
    }
  }

 private:
  void write(const Json& json) { file_->write(dump_json(json) + "\n"); }
  std::optional<FileWriter> file_;
};

}  // namespace

std::shared_ptr<Reporter> make_jsonl_reporter() { return std::make_shared<JsonlReporter>(); }

RunHistory read_history(const std::string& output_dir, std::int64_t last_step) {
  RunHistory history;
  for_each_line(metrics_path(output_dir), last_step, [&](const std::string&, const Json& json) {
    const std::int64_t step = json.value("step", std::int64_t{0});
    const std::string type = json.value("type", "");
    const auto number = [&](const char* key) { return json.value(key, 0.0); };
    if (type == "train") {
      history.add(StepRecord{.step = step,
                             .epoch = number("epoch"),
                             .loss = number("loss"),
                             .learning_rate = number("learning_rate"),
                             .grad_norm = number("grad_norm"),
                             .tokens_per_second = number("tokens_per_second"),
                             .flops = number("gflops") * 1e9,
                             .seconds = number("seconds"),
                             .values = values_of(json),
                             .by_layer = layer_values_of(json)});
    } else if (type == "eval") {
      history.add(EvalRecord{.step = step,
                             .loss = number("eval_loss"),
                             .ema = json.value("ema", false),
                             .values = values_of(json)});
    } else if (type == "sample") {
      history.add(SampleRecord{step, json.value("prompt", ""), json.value("text", "")});
    } else if (type == "memory") {
      history.add(MemoryRecord{.step = step,
                               .ranks = json.value("ranks", 1),
                               .tensors = {number("peak_tensors"), json.value("peak_tensors_rank", 0)},
                               .resident = {number("peak_resident"), json.value("peak_resident_rank", 0)}});
    } else if (type == "event") {
      history.add(EventRecord{.step = step, .kind = json.value("event", ""), .text = json.value("text", "")});
    }
  });
  return history;
}

}  // namespace ingot
