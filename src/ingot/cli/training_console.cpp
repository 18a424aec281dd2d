#include "ingot/cli/training_console.h"

#include <algorithm>

#include "ingot/cli/interrupt.h"
#include "ingot/core/backend.h"
#include "ingot/infer/engine.h"
#include "ingot/train/machine_limit.h"

namespace ingot::cli {
namespace {

std::string continue_prompt(const TrainConfig& config, const LanguageModel& model,
                            const text::Tokenizer& tokenizer, const std::string& prompt) {
  infer::Request request{.prompt = tokenizer.encode(prompt), .max_tokens = config.sample_tokens};
  if (request.prompt.empty()) return {};
  request.sampling = {.temperature = 0.7, .top_p = 0.95, .seed = 1};
  return tokenizer.decode(infer::generate(model, std::move(request), {.capture = config.cuda_graphs}).tokens);
}

}  // namespace

struct TrainingConsole::State {
  TrainConfig config;
  Options options;
  double matmul_flops = 0, peak_flops = 0;

  void raise_limit(LanguageTrainer& trainer);
};

TrainingConsole::TrainingConsole(const TrainConfig& config, Options options)
    : state_(std::make_unique<State>()) {
  state_->config = config;
  state_->options = std::move(options);
  const Device device = config.training_device();
  state_->matmul_flops = measure_matmul_flops(config.dtype, device);
  const auto& peaks = backend(device).capabilities().peak_flops;
  if (const auto peak = peaks.find(config.dtype); peak != peaks.end()) state_->peak_flops = peak->second;
}

TrainingConsole::~TrainingConsole() = default;

double TrainingConsole::matmul_flops() const { return state_->matmul_flops; }

LanguageTrainerHooks TrainingConsole::hooks() const {
  const State* s = state_.get();
  LanguageTrainerHooks hooks;
  if (!s->options.json) hooks.reporters = make_reporters({s->options.dashboard ? "dashboard" : "console"});
  hooks.should_stop = [] { return interrupted(); };
  hooks.sample = [s](const LanguageModel& model, const text::Tokenizer& tokenizer,
                     const std::string& prompt) {
    return continue_prompt(s->config, model, tokenizer, prompt);
  };
  return hooks;
}

// What was reached is possible, whatever a measurement says.
void TrainingConsole::State::raise_limit(LanguageTrainer& trainer) {
  RunInfo& info = trainer.info();
  if (trainer.history().steps().empty()) return;
  const double reached = trainer.history().steps().back().flops;
  if (info.matmul_flops <= 0 || reached <= info.matmul_flops) return;
  info.matmul_flops = std::max(reached, measure_matmul_flops(config.dtype, config.training_device()));
}

TrainResult TrainingConsole::run(LanguageTrainer& trainer, const std::function<void()>& after_step) {
  RunInfo& info = trainer.info();
  info.config = state_->options.effective_config;
  info.matmul_flops = state_->matmul_flops;
  info.peak_flops = state_->peak_flops;
  const InterruptWatch watch;
  while (trainer.step()) {
    state_->raise_limit(trainer);
    if (after_step) after_step();
  }
  return trainer.finish();
}

std::string TrainingConsole::report() const {
  return state_->config.reports_to("html") ? state_->config.output_dir + "/report.html" : std::string();
}

}  // namespace ingot::cli
