#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include <fmt/format.h>

#include "ingot/autograd/engine.h"
#include "ingot/base/directory_lock.h"
#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/printable.h"
#include "ingot/base/shell.h"
#include "ingot/base/stopwatch.h"
#include "ingot/base/units.h"
#include "ingot/cli/commands.h"
#include "ingot/cli/training_console.h"
#include "ingot/core/backend.h"
#include "ingot/data/documents.h"
#include "ingot/nn/param_source.h"
#include "ingot/train/language/dataset.h"

namespace ingot::cli {
namespace {

struct DemoOptions {
  std::vector<std::string> data;
  std::string output = "out/demo";
  double minutes = 2.5;
  std::uint64_t seed = 1234;
  bool overwrite = false;
};

// Without --data the demo learns from the repository that it stands in: sources and guides, not goldens and
// builds.
std::vector<std::string> chosen_data(const DemoOptions& o) {
  if (!o.data.empty()) return o.data;
  std::vector<std::string> own;
  for (const char* name : {"src", "docs", "examples", "README.md"}) {
    if (std::filesystem::exists(name)) own.emplace_back(name);
  }
  return own.empty() ? std::vector<std::string>{"."} : own;
}

// What a person types to run this program again from here: its name where PATH finds it, else the nearest way
// to it.
std::string own_command() {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (error) return "ingot";
  const char* path = std::getenv("PATH");
  std::istringstream directories(path != nullptr ? path : "");
  for (std::string directory; std::getline(directories, directory, ':');) {
    const fs::path found = fs::path(directory) / program.filename();
    if (!fs::exists(found, error)) continue;
    if (fs::equivalent(found, program, error)) return program.filename();
    break;  // the name would run another program
  }
  const std::string near = fs::proximate(program, error).string();
  if (error || near.starts_with("..")) return program.string();
  return near.find('/') == std::string::npos ? "./" + near : near;
}

// About 3 million parameters: big enough to write words and code shapes, small enough to see a few million
// tokens in minutes on two cores.
TrainConfig demo_config(const DemoOptions& o) {
  TrainConfig c;
  c.from_scratch = true;
  c.architecture.model_type = "llama";
  apply_family(c.architecture);
  c.architecture.hidden_size = 192;
  c.architecture.intermediate_size = 512;
  c.architecture.num_hidden_layers = 6;
  c.architecture.num_attention_heads = 6;
  c.architecture.num_key_value_heads = 2;
  c.architecture.max_position_embeddings = 1024;
  c.architecture.tie_word_embeddings = true;
  c.vocab_size = 2048;
  for (const std::string& path : o.data) c.datasets.push_back({.path = path});
  c.validation_split_ratio = 0.05;
  c.output_dir = o.output;
  c.run_name = "Ingot demo";
  c.sequence_len = 256;
  c.per_device_train_batch_size = 8;
  c.optimizer.learning_rate = 3e-3;
  c.optimizer.beta2 = 0.95;
  c.warmup_ratio = 0.05;
  c.schedule.final_lr_fraction = 0.05;
  c.eval_batches = 16;
  c.save_steps = 0;
  c.sample_tokens = 48;
  c.seed = o.seed;
  return c;
}

// Seconds of one training step of this shape, so that the number of steps fits the time there is.
double measure_step(const TrainConfig& config) {
  LanguageConfig model_config = config.architecture;
  model_config.vocab_size = config.vocab_size;
  const Device device = config.training_device();
  InitSource source(config.seed, config.dtype, device);
  LanguageModel model(model_config, source);
  const auto count = config.per_device_train_batch_size * config.sequence_len;
  std::vector<std::int32_t> ids(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int32_t>(i % 2000);
  const Tensor tokens = Tensor::from(ids, {config.per_device_train_batch_size, config.sequence_len}, device);
  double best = 1e9;
  for (int i = 0; i < 3; ++i) {
    const Stopwatch watch;
    backward(model.loss({.tokens = tokens}, tokens));
    backend(device).synchronize(current_stream(device));
    best = std::min(best, watch.seconds());
  }
  return best;
}

// The beginning of a sentence of the data, for the model to go on from.
std::string first_words(const DemoOptions& o) {
  data::SourceOptions source;
  source.paths = o.data;
  source.invalid_utf8 = data::InvalidUtf8::stray;
  std::string words = "The ";
  data::for_each_document(source, [&](std::string_view text) {
    for (std::size_t at = text.find("\n"); at < text.size(); at = text.find("\n", at + 1)) {
      const std::string_view line = text.substr(at + 1, 60);
      const bool prose =
          !line.empty() && line.front() >= 'A' && line.front() <= 'Z' && std::ranges::count(line, ' ') > 7;
      if (!prose || line.find_first_of("(){};/\n|") != std::string_view::npos) continue;
      words = line.substr(0, line.find(' ', line.find(' ', line.find(' ') + 1) + 1));
      return;
    }
  });
  return words;
}

void check_output(const DemoOptions& o) {
  namespace fs = std::filesystem;
  const std::string& output = o.output;
  if (!fs::exists(output) || fs::is_empty(output)) return;
  // A demo that was run before may be replaced; anything else in the way is not ours to delete.
  INGOT_CHECK(
      fs::exists(output + "/metrics.jsonl") || fs::exists(output + "/cache"),
      InvalidConfig("--output", output + " exists and holds no earlier demo; choose another directory"));
  INGOT_CHECK(o.overwrite,
              InvalidConfig("--output", output + " holds an earlier demo; --overwrite replaces it, "
                                                 "-o names another directory"));
  for (const auto& entry : fs::directory_iterator(output)) {
    if (entry.path().filename() != "cache") fs::remove_all(entry.path());
  }
}

// Plans a run by the speed it has, so that it ends in time whatever else the machine does.
class Pace {
 public:
  Pace(LanguageTrainer& trainer, double seconds) : trainer_(trainer), seconds_(seconds) {}

  // The first step counts for none: threads start, and memory is touched for the first time.
  void after_step() {
    const double now = watch_.seconds();
    const std::int64_t done = trainer_.steps_done(), planned = trainer_.total_steps();
    if (first_ == 0) {
      first_ = done;
      began_ = now;
    }
    if (now >= seconds_) return trainer_.plan(done, planned);
    if (done < first_ + 2 || now < next_) return;
    next_ = 1.3 * now;
    const double speed = static_cast<double>(done - first_) / (now - began_);
    const auto left = static_cast<std::int64_t>(speed * (seconds_ - now));
    const std::int64_t possible = std::min(done + std::max<std::int64_t>(left, 2), kMostSteps);
    if (std::abs(possible - planned) * 20 > planned)
      trainer_.plan(possible, std::max<std::int64_t>(1, possible / 6));
  }

  static constexpr std::int64_t kMostSteps = 20'000;

 private:
  LanguageTrainer& trainer_;
  double seconds_, began_ = 0, next_ = 1;
  std::int64_t first_ = 0;
  Stopwatch watch_;
};

// Why a model is no better than counting pairs of tokens.
std::string why_not_better(const TrainResult& result, double bigram, const TrainConfig& config,
                           double minutes) {
  if (result.train_loss < bigram) {
    return "It has learned its own text by heart: there is too little of it. Give more with --data.";
  }
  return fmt::format(
      "It saw {} tokens in the {} steps that this machine made in {:.1f} minutes, too few. Give it "
      "more time: --minutes {:.0f}.",
      human_count(static_cast<double>(result.steps * config.tokens_per_step())), result.steps, minutes,
      std::ceil(4 * minutes));
}

int run(DemoOptions o) {
  o.data = chosen_data(o);
  const DirectoryLock lock(o.output);
  check_output(o);
  TrainConfig config = demo_config(o);
  const double step_seconds = measure_step(config);
  config.max_steps = std::clamp<std::int64_t>(
      static_cast<std::int64_t>(o.minutes * 60 / (1.1 * step_seconds)), 20, Pace::kMostSteps);
  config.eval_steps = std::max<std::int64_t>(1, config.max_steps / 6);
  config.sample_prompts = {first_words(o)};
  TrainingConsole console(
      config, {.effective_config = {{"data", fmt::format("{}", fmt::join(o.data, " "))},
                                    {"steps", std::to_string(config.max_steps)},
                                    {"tokens per step", std::to_string(config.tokens_per_step())},
                                    {"learning rate", fmt::format("{}", config.optimizer.learning_rate)},
                                    {"seed", std::to_string(config.seed)}}});
  fmt::print("This machine multiplies matrices at {:.0f} GFLOP/s (f32).\n", console.matmul_flops() * 1e-9);
  fmt::print("Learning a tokenizer of {} tokens from the text of {} ...\n", config.vocab_size,
             printable(fmt::format("{}", fmt::join(o.data, ", "))));
  std::fflush(stdout);
  LanguageTrainer trainer(config, console.hooks());
  const double bigram = trainer.bigram_baseline().value_or(0);
  fmt::print("Training a Llama-style model of {} parameters for {} steps of {} tokens.\n",
             human_count(static_cast<double>(trainer.model().config.parameter_count())),
             trainer.total_steps(), config.tokens_per_step());
  fmt::print("A bigram model's loss on the validation text is {:.3f}; knowing nothing would be {:.3f}.\n\n",
             bigram, std::log(static_cast<double>(trainer.model().config.vocab_size)));
  trainer.info().baselines = {{"bigram", bigram}};
  Pace pace(trainer, o.minutes * 60);
  const TrainResult result = console.run(trainer, [&] { pace.after_step(); });
  const double loss = result.validation_loss.value_or(0);
  fmt::print("\nValidation loss {:.3f} against the bigram model's {:.3f}.\n", loss, bigram);
  if (!(loss < bigram) && result.end != TrainEnd::stopped)
    fmt::print("{}\n", why_not_better(result, bigram, config, o.minutes));
  fmt::print("  model   {}\n  report  {}\n\nNow try:\n  {} generate {} --prompt {}\n",
             printable(result.model_directory), printable(console.report()), own_command(),
             shell_word(result.model_directory), shell_quoted(config.sample_prompts.front()));
  return 0;
}

}  // namespace

void add_demo(Command& root) {
  auto o = std::make_shared<DemoOptions>();
  Command command =
      root.subcommand("demo", "Train a small language model on your text, here, in three minutes");
  command.option("--data", o->data,
                 "Text files, .jsonl files or directories to learn from; default: this repository");
  command.option("-o,--output", o->output, "Where the model and the report go");
  command.flag("--overwrite", o->overwrite, "Replace an earlier demo");
  command.option("--minutes", o->minutes, "How long to train; the steps follow from the speed, as it goes");
  command.option("--seed", o->seed, "The same seed begins with the same weights, and sees the same text");
  command.example("ingot demo --data ~/notes", "learn from your own notes");
  command.example("ingot demo --minutes 10", "a better model");
  command.run([o] { return run(*o); });
}

}  // namespace ingot::cli
