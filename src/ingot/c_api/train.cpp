#include "ingot/c_api/train.h"

#include <limits>

#include "ingot/base/config.h"
#include "ingot/base/directory_lock.h"
#include "ingot/base/files.h"
#include "ingot/c_api/inner/objects.h"
#include "ingot/train/language/language_trainer.h"

using namespace ingot;
using namespace ingot::c_api;

namespace ingot::c_api {
namespace {

/// Hands what a run reports to the caller's functions, and keeps the last step.
class CallbackReporter : public Reporter {
 public:
  explicit CallbackReporter(const IngotTrainCallbacks& callbacks) : callbacks_(callbacks) {}

  void progress(const StepRecord& record) override {
    last_ = {.step = record.step,
             .epoch = record.epoch,
             .loss = record.loss,
             .learning_rate = record.learning_rate,
             .grad_norm = record.grad_norm,
             .tokens_per_second = record.tokens_per_second,
             .flops = record.flops,
             .seconds = record.seconds};
    if (callbacks_.on_step != nullptr) callbacks_.on_step(&last_, callbacks_.user);
  }
  void evaluation(const EvalRecord& record) override {
    if (callbacks_.on_evaluation != nullptr)
      callbacks_.on_evaluation(record.step, record.loss, record.best ? 1 : 0, callbacks_.user);
  }
  void saved(const std::string& path) override {
    if (callbacks_.on_saved != nullptr) callbacks_.on_saved(path.c_str(), callbacks_.user);
  }
  const IngotTrainStep& last() const { return last_; }

 private:
  const IngotTrainCallbacks callbacks_;
  IngotTrainStep last_{};
};

TrainConfig train_config(Config& file, const IngotTrainerOptions& options) {
  for (const char* one : array_arg(options.set, options.set_count, "options.set"))
    file.set(string_arg(one, "options.set"), "options.set");
  if (options.resume != 0) file.set("resume_from_checkpoint=true", "options.resume");
  TrainConfig config = read_train_config(file);
  fetch_from_hub(config);
  return config;
}

}  // namespace
}  // namespace ingot::c_api

struct IngotTrainer : Object {
  static constexpr const char* kName = "trainer";

  IngotTrainer(Config file, const IngotTrainerOptions& options)
      : config(train_config(file, options)),
        lock(config.output_dir),
        reporter(std::make_shared<CallbackReporter>(options.callbacks)),
        trainer(config, hooks(options.callbacks)) {
    write_file_atomically(config.output_dir + "/config.yaml", file.dump());
    trainer.info().config = file.effective();
  }

  LanguageTrainerHooks hooks(const IngotTrainCallbacks& callbacks) {
    LanguageTrainerHooks all;
    all.reporters = {reporter};
    all.should_stop = [this, callbacks] {
      lock.check();
      return interrupted || (callbacks.should_stop != nullptr && callbacks.should_stop(callbacks.user) != 0);
    };
    return all;
  }

  const TrainConfig config;
  const DirectoryLock lock;
  std::atomic<bool> interrupted = false;
  const std::shared_ptr<CallbackReporter> reporter;
  LanguageTrainer trainer;
  TrainResult done;
  std::string end;
};

namespace ingot::c_api {
namespace {

IngotTrainer* open_trainer(Config file, const IngotTrainerOptions* options) {
  return open_handle(std::make_shared<IngotTrainer>(std::move(file), options_or(options)));
}

const char* path_or_null(const std::string& path) { return path.empty() ? nullptr : path.c_str(); }

}  // namespace
}  // namespace ingot::c_api

extern "C" {

IngotStatus ingot_trainer_options(IngotTrainerOptions* options, size_t size) {
  return call(__func__, [&] { fill_options(options, size); });
}

IngotStatus ingot_trainer_open(const char* path, const IngotTrainerOptions* options, IngotTrainer** out) {
  return call(__func__, [&] {
    auto& made = result(out, "out");
    made = open_trainer(Config::load(string_arg(path, "path")), options);
  });
}

IngotStatus ingot_trainer_open_text(const char* yaml, const IngotTrainerOptions* options,
                                    IngotTrainer** out) {
  return call(__func__, [&] {
    auto& made = result(out, "out");
    made = open_trainer(Config::parse(string_arg(yaml, "yaml")), options);
  });
}

IngotStatus ingot_trainer_close(IngotTrainer* trainer) {
  return call(__func__, [&] { close_handle(trainer); });
}

IngotStatus ingot_trainer_info(const IngotTrainer* trainer, IngotTrainerInfo* info, size_t size) {
  return call(__func__, [&] {
    const Use<IngotTrainer> t(trainer);
    const IngotTrainerInfo values{.total_steps = t->trainer.total_steps(),
                                  .steps_done = t->trainer.steps_done(),
                                  .parameters = t->trainer.model().config.parameter_count(),
                                  .trained_parameters = count_parameters(t->trainer.model(), true),
                                  .tokens_per_step = t->config.tokens_per_step(),
                                  .device = device_name(t->trainer.device()),
                                  .output_dir = t->config.output_dir.c_str()};
    fill(info, size, values, "info");
  });
}

IngotStatus ingot_trainer_step(IngotTrainer* trainer, IngotTrainStep* step, size_t size, int32_t* more) {
  return call(__func__, [&] {
    auto& goes_on = result(more, "more");
    const Use<IngotTrainer> t(trainer);
    goes_on = t->trainer.step() ? 1 : 0;
    if (step != nullptr) fill(step, size, t->reporter->last(), "step");
  });
}

IngotStatus ingot_trainer_run(IngotTrainer* trainer) {
  return call(__func__, [&] {
    const Use<IngotTrainer> t(trainer);
    while (t->trainer.step()) {
    }
  });
}

IngotStatus ingot_trainer_evaluate(IngotTrainer* trainer, double* loss) {
  return call(__func__, [&] {
    auto& shown = result(loss, "loss");
    const Use<IngotTrainer> t(trainer);
    shown = t->trainer.evaluate().value_or(std::numeric_limits<double>::quiet_NaN());
  });
}

IngotStatus ingot_trainer_save(IngotTrainer* trainer, char** path) {
  return call(__func__, [&] {
    if (path != nullptr) *path = nullptr;
    const Use<IngotTrainer> t(trainer);
    const std::string saved = t->trainer.save();
    if (path != nullptr) *path = give_text(saved);
  });
}

IngotStatus ingot_trainer_interrupt(IngotTrainer* trainer) {
  return call(__func__, [&] { object_of(trainer)->interrupted = true; });
}

IngotStatus ingot_trainer_finish(IngotTrainer* trainer, IngotTrainResult* result, size_t size) {
  return call(__func__, [&] {
    required(result, "result");
    const Use<IngotTrainer> t(trainer);
    constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
    t->done = t->trainer.finish();
    t->lock.check();  // not the end of a directory where nothing was written
    t->end = name(t->done.end);
    const IngotTrainResult values{.end = t->end.c_str(),
                                  .steps = t->done.steps,
                                  .train_loss = t->done.train_loss,
                                  .validation_loss = t->done.validation_loss.value_or(kNone),
                                  .best_validation_loss = t->done.best_validation_loss.value_or(kNone),
                                  .model = path_or_null(t->done.model_directory),
                                  .checkpoint = path_or_null(t->done.last_checkpoint)};
    fill(result, size, values, "result");
  });
}

}  // extern "C"
