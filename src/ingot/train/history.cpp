#include "ingot/train/history.h"

#include <filesystem>
#include <sstream>

#include <nlohmann/json.hpp>

#include "ingot/base/files.h"
#include "ingot/base/json.h"

namespace ingot {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const StepRecord& r) {
  return {{"type", "train"},
          {"step", r.step},
          {"epoch", r.epoch},
          {"loss", r.loss},
          {"learning_rate", r.learning_rate},
          {"grad_norm", r.grad_norm},
          {"tokens_per_second", r.tokens_per_second},
          {"gflops", r.flops * 1e-9},
          {"seconds", r.seconds}};
}

Json to_json(const EvalRecord& r) {
  return {{"type", "eval"}, {"step", r.step}, {"eval_loss", r.loss}, {"ema", r.ema}};
}

Json to_json(const SampleRecord& r) {
  return {{"type", "sample"}, {"step", r.step}, {"prompt", r.prompt}, {"text", r.text}};
}

}  // namespace

struct RunHistory::Sink {
  explicit Sink(const std::string& path) : file(path, FileWriter::Mode::append) {}
  void write(const Json& json) { file.write(dump_json(json) + "\n"); }
  FileWriter file;
};

RunHistory::RunHistory(const std::string& path, std::int64_t resume_step) {
  if (path.empty()) return;
  const bool exists = std::filesystem::exists(path);
  if (exists && resume_step > 0) read(path, resume_step);
  std::string kept;
  for (const StepRecord& r : steps_) kept += dump_json(to_json(r)) + "\n";
  for (const EvalRecord& r : evaluations_) kept += dump_json(to_json(r)) + "\n";
  for (const SampleRecord& r : samples_) kept += dump_json(to_json(r)) + "\n";
  if (exists) write_file_atomically(path, kept);
  sink_ = std::make_unique<Sink>(path);
}

RunHistory::~RunHistory() {
  try {
    flush();
  } catch (...) {  // a full disk was reported by the write that met it
  }
}

void RunHistory::read(const std::string& path, std::int64_t resume_step) {
  std::istringstream lines(read_file(path));
  for (std::string line; std::getline(lines, line);) {
    const Json json = parse_json_or_discard<Json>(line);
    if (!json.is_object()) continue;  // the last line of a killed process may be half a line
    const std::int64_t step = json.value("step", std::int64_t{0});
    if (step > resume_step) continue;
    const std::string type = json.value("type", "");
    if (type == "train") {
      steps_.push_back({step, json.value("epoch", 0.0), json.value("loss", 0.0),
                        json.value("learning_rate", 0.0), json.value("grad_norm", 0.0),
                        json.value("tokens_per_second", 0.0), json.value("gflops", 0.0) * 1e9,
                        json.value("seconds", 0.0)});
    } else if (type == "eval") {
      evaluations_.push_back({step, json.value("eval_loss", 0.0), json.value("ema", false)});
    } else if (type == "sample") {
      samples_.push_back({step, json.value("prompt", ""), json.value("text", "")});
    }
  }
}

void RunHistory::add(const StepRecord& record) {
  steps_.push_back(record);
  if (sink_ != nullptr) sink_->write(to_json(record));
}
void RunHistory::add(const EvalRecord& record) {
  evaluations_.push_back(record);
  if (sink_ != nullptr) sink_->write(to_json(record));
}
void RunHistory::add(const SampleRecord& record) {
  samples_.push_back(record);
  if (sink_ != nullptr) sink_->write(to_json(record));
}
void RunHistory::flush() {
  if (sink_ != nullptr) sink_->file.flush();
}

}  // namespace ingot
