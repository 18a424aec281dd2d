#include "ingot/base/tensorboard.h"

#include <optional>

#include "ingot/train/reporter.h"

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
  void step(const StepRecord& r) override {
    writer_->scalar("train/loss", static_cast<float>(r.loss), r.step);
    writer_->scalar("train/learning_rate", static_cast<float>(r.learning_rate), r.step);
    writer_->scalar("train/grad_norm", static_cast<float>(r.grad_norm), r.step);
    if (r.tokens_per_second > 0)
      writer_->scalar("train/tokens_per_second", static_cast<float>(r.tokens_per_second), r.step);
    for (const auto& [name, value] : r.values)
      writer_->scalar("train/" + name, static_cast<float>(value), r.step);
  }
  void evaluation(const EvalRecord& r) override {
    writer_->scalar(r.ema ? "eval/ema_loss" : "eval/loss", static_cast<float>(r.loss), r.step);
    for (const auto& [name, value] : r.values)
      writer_->scalar((r.ema ? "eval/ema_" : "eval/") + name, static_cast<float>(value), r.step);
  }
  void sample(const SampleRecord& r) override {
    writer_->text("samples", "**" + r.prompt + "**" + r.text, r.step);
  }
  void flush() override {
    if (writer_.has_value()) writer_->flush();
  }
  void finish(const RunHistory&) override { flush(); }

 private:
  std::optional<TensorBoardWriter> writer_;
};

}  // namespace

std::shared_ptr<Reporter> make_tensorboard_reporter() { return std::make_shared<TensorBoardReporter>(); }

}  // namespace ingot
