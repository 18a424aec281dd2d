#include <cstdio>
#include <optional>

#include <fmt/format.h>
#include <unistd.h>

#include "ingot/base/printable.h"
#include "ingot/base/progress.h"
#include "ingot/base/units.h"
#include "ingot/train/reporter.h"

namespace ingot {
namespace {

std::string one_line(std::string text) {
  for (char& c : text) {
    if (c == '\n' || c == '\t' || c == '\r') c = ' ';
  }
  return printable(text);
}

void say(const std::string& line) {
  const ProgressPause pause;
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

// A bar, and a line for each evaluation and sample.
class ConsoleReporter : public Reporter {
 public:
  void begin(const RunInfo& info) override {
    info_ = &info;
    begin_bar(info.first_step);
  }

  void progress(const StepRecord& r) override {
    smoothed_loss_ = smoothed_loss_ == 0 ? r.loss : 0.9 * smoothed_loss_ + 0.1 * r.loss;
    if (info_->total_steps != total_steps_) begin_bar(r.step - 1);  // the run was planned anew
    bar_->update(r.step, bar_->due() ? speed(r) : "");
  }

  void evaluation(const EvalRecord& r) override {
    std::string line = fmt::format("step {:>6}  {} loss {:.4f}", r.step,
                                   r.ema ? "averaged validation" : "validation", r.loss);
    for (const auto& [name, value] : r.values) line += fmt::format(" · {} {:.4g}", name, value);
    say(line);
  }

  void sample(const SampleRecord& r) override {
    const bool dim = wants_color(STDOUT_FILENO);
    say(fmt::format("  {}{}{}{}", dim ? "\033[2m" : "", one_line(r.prompt), dim ? "\033[0m" : "",
                    one_line(r.text)));
  }

  void finish(const RunHistory&) override { bar_->finish(); }

 private:
  void begin_bar(std::int64_t done) {
    total_steps_ = info_->total_steps;
    bar_.reset();
    bar_.emplace(ProgressOptions{.label = "training", .total = total_steps_, .done = done});
  }

  std::string speed(const StepRecord& r) const {
    std::string text = fmt::format("loss {:.3f}", smoothed_loss_);
    if (r.tokens_per_second > 0) text += fmt::format(" · {} tok/s", human_count(r.tokens_per_second));
    for (const auto& [name, value] : r.values) {
      if (name == "router/aux_loss") text += fmt::format(" · aux {:.3f}", value);
      if (name == "router/imbalance") text += fmt::format(" · imbal {:.2f}", value);
    }
    if (r.flops > 0) text += fmt::format(" · {:.0f} GFLOP/s", r.flops * 1e-9);
    if (info_->matmul_flops > 0) text += fmt::format(" ({:.0f} %)", 100 * r.flops / info_->matmul_flops);
    if (info_->peak_flops > 0) text += fmt::format(" · MFU {:.0f} %", 100 * r.flops / info_->peak_flops);
    return text;
  }

  const RunInfo* info_ = nullptr;
  std::optional<ProgressBar> bar_;
  std::int64_t total_steps_ = 0;
  double smoothed_loss_ = 0;
};

}  // namespace

std::shared_ptr<Reporter> make_console_reporter() { return std::make_shared<ConsoleReporter>(); }

}  // namespace ingot
