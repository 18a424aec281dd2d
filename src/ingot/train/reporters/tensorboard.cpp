#include "ingot/base/tensorboard.h"

#include <optional>

#include "ingot/train/reporter.h"
#include "ingot/train/reporters/metric_names.h"

namespace ingot {
namespace {

class TensorBoardReporter : public Reporter {
 public:
  void begin(const RunInfo& info) override {
    writer_.emplace(info.output_dir + "/tensorboard", info.first_step);
    std::string table = "| | |\n|---|---|\n";
    for (const auto& [name, value] : info.metadata.rows()) table += "| " + name + " | " + value + " |\n";
    writer_->text("run", table, info.first_step);
  }
  void step(const StepRecord& r) override { scalars(tracked_values(r), r.step); }
  void evaluation(const EvalRecord& r) override { scalars(tracked_values(r), r.step); }
  void sample(const SampleRecord& r) override {
    writer_->text("samples", "**" + r.prompt + "**" + r.text, r.step);
  }
  void event(const EventRecord& r) override { writer_->text("events", r.kind + ": " + r.text, r.step); }
  void flush() override {
    if (writer_.has_value()) writer_->flush();
  }
  void finish(const RunHistory&) override { flush(); }

 private:
  void scalars(const NamedValues& values, std::int64_t step) {
    for (const auto& [name, value] : values) writer_->scalar(name, static_cast<float>(value), step);
  }
  std::optional<TensorBoardWriter> writer_;
};

}  // namespace

std::shared_ptr<Reporter> make_tensorboard_reporter() { return std::make_shared<TensorBoardReporter>(); }

}  // namespace ingot
