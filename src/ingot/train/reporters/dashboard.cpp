#include <algorithm>
#include <optional>

#include <unistd.h>

#include "ingot/base/live_lines.h"
#include "ingot/base/printable.h"
#include "ingot/base/progress.h"
#include "ingot/base/stopwatch.h"
#include "ingot/core/backend.h"
#include "ingot/train/reporter.h"
#include "ingot/train/reporters/dashboard_view.h"

namespace ingot {

std::shared_ptr<Reporter> make_console_reporter();

namespace {

constexpr double kRedrawSeconds = 0.25;
constexpr double kForget = 0.1;  // weight of a step's time in the mean that the ETA comes from

std::string in_one_line(std::string text) {
  std::ranges::replace_if(
      text, [](unsigned char c) { return c < 0x20 || c == 0x7F; }, ' ');
  return printable(text);
}

// A page at the bottom of the terminal: loss curve, speed, memory.
class DashboardReporter : public Reporter {
 public:
  bool watches_layers() const override { return true; }

  void begin(const RunInfo& info) override {
    info_ = &info;
    state_.title = in_one_line(info.name);
    state_.subtitle = in_one_line(info.subtitle);
    state_.layers = info.layers;
    state_.first_step = state_.last.step = info.first_step;
    since_begin_.restart();
    lines_.emplace(STDERR_FILENO);
    draw();
  }

  void progress(const StepRecord& record) override {
    state_.last = record;
    state_.losses.push_back(record.loss);
    seconds_ = seconds_ == 0 ? record.seconds : seconds_ + kForget * (record.seconds - seconds_);
    if (since_draw_.seconds() >= kRedrawSeconds) draw();
  }

  // The newest, and the best where that is another.
  void evaluation(const EvalRecord& record) override {
    auto& shown = state_.evaluations;
    if (record.best) best_ = record;
    shown = {record};
    if (best_.has_value() && best_->step != record.step) shown.push_back(*best_);
    if (!record.best) shown.front().best = false;
    draw();
  }

  void sample(const SampleRecord& record) override {
    state_.note = in_one_line(record.prompt + record.text);
    draw();
  }

  void saved(const std::string& path) override {
    state_.note = in_one_line("saved " + path);
    draw();
  }

  void finish(const RunHistory&) override {
    draw();
    lines_.reset();  // the last page stays
  }

 private:
  void draw() {
    if (!lines_.has_value()) return;
    since_draw_.restart();
    state_.total_steps = info_->total_steps;
    state_.matmul_flops = info_->matmul_flops;
    state_.seconds = since_begin_.seconds();
    const auto left = static_cast<double>(info_->total_steps - state_.last.step);
    state_.seconds_left = seconds_ > 0 ? left * seconds_ : -1;
    const MemoryTracker& memory = backend(info_->device).memory();
    state_.memory.clear();
    for (std::size_t i = 0; i < kMemoryTags; ++i) {
      const auto tag = static_cast<MemoryTag>(i);
      if (memory.allocated(tag) > 0) state_.memory.emplace_back(name(tag), memory.allocated(tag));
    }
    std::ranges::sort(state_.memory, [](const auto& a, const auto& b) { return a.second > b.second; });
    state_.memory_peak = memory.peak();
    // The last column and row stay free: some terminals wrap and scroll when they are written.
    lines_->draw(dashboard_lines(state_, terminal_columns(STDERR_FILENO) - 1,
                                 terminal_rows(STDERR_FILENO) - 1, wants_color(STDERR_FILENO)));
  }

  const RunInfo* info_ = nullptr;
  DashboardState state_;
  std::optional<EvalRecord> best_;
  std::optional<LiveLines> lines_;
  Stopwatch since_begin_, since_draw_;
  double seconds_ = 0;
};

}  // namespace

std::shared_ptr<Reporter> make_dashboard_reporter() {
  if (!is_terminal(STDERR_FILENO)) return make_console_reporter();
  return std::make_shared<DashboardReporter>();
}

}  // namespace ingot
