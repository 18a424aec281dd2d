#include "ingot/cli/training_console.h"

#include <algorithm>

#include <fmt/format.h>
#include <unistd.h>

#include "ingot/base/progress.h"
#include "ingot/base/tensorboard.h"
#include "ingot/base/units.h"
#include "ingot/cli/interrupt.h"
#include "ingot/core/backend.h"
#include "ingot/infer/engine.h"
#include "ingot/train/machine_limit.h"
#include "ingot/train/run_report.h"

namespace ingot::cli {
namespace {

std::string continue_prompt(const TrainConfig& config, const LanguageModel& model,
                            const text::Tokenizer& tokenizer, const std::string& prompt) {
  infer::Request request{.prompt = tokenizer.encode(prompt), .max_tokens = config.sample_tokens};
  if (request.prompt.empty()) return {};
  request.sampling = {.temperature = 0.7, .top_p = 0.95, .seed = 1};
  return tokenizer.decode(infer::generate(model, std::move(request), {.capture = config.cuda_graphs}).tokens);
}

std::string one_line(std::string text) {
  for (char& c : text) {
    if (c == '\n' || c == '\t' || c == '\r') c = ' ';
  }
  return text;
}

}  // namespace

struct TrainingConsole::State {
  TrainConfig config;
  Options options;
  double matmul_flops = 0, peak_flops = 0;
  std::unique_ptr<ProgressBar> bar;
  std::unique_ptr<TensorBoardWriter> board;
  double smoothed_loss = 0;
  std::optional<InterruptWatch> watch;  // Ctrl-C ends the run after a checkpoint

  void step(const StepRecord& r);
  void say(const std::string& line) const {
    if (options.json) return;
    const ProgressPause pause;
    fmt::print("{}\n", line);
    std::fflush(stdout);
  }
};

void TrainingConsole::State::step(const StepRecord& r) {
  smoothed_loss = smoothed_loss == 0 ? r.loss : 0.9 * smoothed_loss + 0.1 * r.loss;
  if (bar != nullptr) {
    std::string share = matmul_flops > 0 ? fmt::format(" ({:.0f} %)", 100 * r.flops / matmul_flops) : "";
    if (peak_flops > 0) share += fmt::format(" · MFU {:.0f} %", 100 * r.flops / peak_flops);
    bar->update(r.step, bar->due() ? fmt::format("loss {:.3f} · {} tok/s · {:.0f} GFLOP/s{}", smoothed_loss,
                                                 human_count(r.tokens_per_second), r.flops * 1e-9, share)
                                   : "");
  }
  if (board == nullptr || r.step % config.logging_steps != 0) return;
  board->scalar("train/loss", static_cast<float>(r.loss), r.step);
  board->scalar("train/learning_rate", static_cast<float>(r.learning_rate), r.step);
  board->scalar("train/grad_norm", static_cast<float>(r.grad_norm), r.step);
  board->scalar("train/tokens_per_second", static_cast<float>(r.tokens_per_second), r.step);
}

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

TrainerHooks TrainingConsole::hooks() {
  State* s = state_.get();
  TrainerHooks hooks;
  hooks.on_step = [s](const StepRecord& r, std::int64_t) { s->step(r); };
  hooks.on_eval = [s](const EvalRecord& r) {
    s->say(fmt::format("step {:>6}  {} loss {:.4f}", r.step, r.ema ? "averaged validation" : "validation",
                       r.loss));
    if (s->board != nullptr) {
      s->board->scalar(r.ema ? "eval/ema_loss" : "eval/loss", static_cast<float>(r.loss), r.step);
      s->board->flush();
    }
  };
  hooks.on_sample = [s](const SampleRecord& r) {
    s->say(fmt::format("  \033[2m{}\033[0m{}", one_line(r.prompt), one_line(r.text)));
    if (s->board != nullptr) s->board->text("samples", "**" + r.prompt + "**" + r.text, r.step);
  };
  hooks.sample = [s](const LanguageModel& model, const text::Tokenizer& tokenizer,
                     const std::string& prompt) {
    return continue_prompt(s->config, model, tokenizer, prompt);
  };
  hooks.should_stop = [] { return interrupted(); };
  return hooks;
}

void TrainingConsole::begin(Trainer& trainer) {
  State& s = *state_;
  s.watch.emplace();
  if (s.config.reports_to("tensorboard")) {
    s.board = std::make_unique<TensorBoardWriter>(s.config.output_dir + "/tensorboard", trainer.step());
  }
  if (s.options.json) return;
  s.bar = std::make_unique<ProgressBar>(
      ProgressOptions{.label = "training", .total = trainer.total_steps(), .done = trainer.step()});
}

std::string TrainingConsole::finish(Trainer& trainer, std::optional<double> bigram_loss) {
  State& s = *state_;
  s.watch.reset();
  if (s.bar != nullptr) s.bar->finish();
  if (s.board != nullptr) s.board->flush();
  if (!s.config.reports_to("html")) return {};
  const std::string path = s.config.output_dir + "/report.html";
  RunFacts facts;
  facts.title = s.config.run_name;
  facts.model = trainer.model().config;
  facts.config = s.options.effective_config;
  facts.matmul_flops = s.matmul_flops;
  facts.peak_flops = s.peak_flops;
  facts.bigram_loss = bigram_loss;
  facts.device = backend(trainer.device()).capabilities().device_name;
  write_run_report(path, trainer.history(), facts);
  return path;
}

}  // namespace ingot::cli
