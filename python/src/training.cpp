#include <memory>

#include "bindings.h"
#include "one_at_a_time.h"
#include <nanobind/stl/unique_ptr.h>

#include "ingot/base/config.h"
#include "ingot/base/directory_lock.h"
#include "ingot/base/files.h"
#include "ingot/train/language/config.h"
#include "ingot/train/language/language_trainer.h"
#include "ingot/train/task.h"

namespace ingot::python {
namespace {

nb::dict as_dict(const StepRecord& r) {
  nb::dict result;
  result["step"] = r.step;
  result["epoch"] = r.epoch;
  result["loss"] = r.loss;
  result["learning_rate"] = r.learning_rate;
  result["grad_norm"] = r.grad_norm;
  result["tokens_per_second"] = r.tokens_per_second;
  result["seconds"] = r.seconds;
  return result;
}

nb::dict as_dict(const EvalRecord& r) {
  nb::dict result;
  result["step"] = r.step;
  result["loss"] = r.loss;
  result["ema"] = r.ema;
  result["best"] = r.best;
  return result;
}

nb::dict as_dict(const SampleRecord& r) {
  nb::dict result;
  result["step"] = r.step;
  result["prompt"] = r.prompt;
  result["text"] = r.text;
  return result;
}

nb::dict as_dict(const EventRecord& r) {
  nb::dict result;
  result["step"] = r.step;
  result["kind"] = r.kind;
  result["text"] = r.text;
  return result;
}

nb::dict as_dict(const RunInfo& info) {
  nb::dict result;
  result["name"] = info.name;
  result["output_dir"] = info.output_dir;
  result["model_type"] = info.model_type;
  result["parameters"] = info.parameters;
  result["loss_unit"] = info.loss_unit;
  result["device"] = to_string(info.device);
  result["first_step"] = info.first_step;
  result["total_steps"] = info.total_steps;
  return result;
}

// Hands a run's events to Python. An exception of a callback ends the run behind its step, with a checkpoint,
// and leaves the call then; of what follows, Python hears what has been saved and the end.
class PythonReporter : public Reporter {
 public:
  explicit PythonReporter(nb::object callback) : callback_(std::move(callback)) {}
  ~PythonReporter() override {
    const AcquiredGil acquire;
    callback_.reset();
    error_.reset();
  }
  void begin(const RunInfo& info) override { call("begin", info); }
  void progress(const StepRecord& record) override { call("step", record); }
  void evaluation(const EvalRecord& record) override { call("evaluation", record); }
  void sample(const SampleRecord& record) override { call("sample", record); }
  void event(const EventRecord& record) override { call("event", record); }
  void saved(const std::string& path) override { call("saved", path, true); }
  void finish(const RunHistory& /*history*/) override { call("finish", std::string(), true); }

  bool should_stop() {
    const AcquiredGil acquire;
    if (!error_ && PyErr_CheckSignals() != 0) error_.emplace();
    return error_.has_value();
  }
  void rethrow() {
    if (!error_) return;
    nb::python_error error = std::move(*error_);
    error_.reset();
    throw error;
  }

 private:
  static nb::object convert(const std::string& path) { return nb::cast(path); }
  template <class Record>
  static nb::object convert(const Record& record) {
    return as_dict(record);
  }
  template <class Value>
  void call(const char* event, const Value& value, bool also_after_error = false) {
    const AcquiredGil acquire;
    if (callback_.is_none() || (error_ && !also_after_error)) return;
    try {
      callback_(event, convert(value));
    } catch (nb::python_error& error) {
      if (!error_) error_.emplace(std::move(error));
    }
  }

  nb::object callback_;
  std::optional<nb::python_error> error_;
};

class Trainer {
 public:
  Trainer(const std::string& yaml, const std::string& name, const std::vector<std::string>& changes,
          bool resume, nb::object callback)
      : reporter_(std::make_shared<PythonReporter>(std::move(callback))) {
    const ReleasedGil release;
    Config file = Config::parse(yaml, name);
    for (const std::string& change : changes) file.set(change, "an argument of Trainer");
    if (resume) file.set("resume_from_checkpoint=true");
    TrainConfig config = read_train_config(file);
    fetch_from_hub(config);
    lock_ = std::make_unique<DirectoryLock>(config.output_dir);
    LanguageTrainerHooks hooks{.reporters = {reporter_},
                               .should_stop = [reporter = reporter_.get(), lock = lock_.get()] {
                                 if (reporter->should_stop()) return true;
                                 lock->check();
                                 return false;
                               }};
    trainer_ = std::make_shared<LanguageTrainer>(config, std::move(hooks));
    write_file_atomically(config.output_dir + "/config.yaml", file.dump());
  }

  bool step() {
    const OneAtATime::Turn turn(turns_, kName);
    const bool more = [this] {
      const ReleasedGil release;
      return trainer().step();
    }();
    reporter_->rethrow();
    return more;
  }
  TrainResult finish() {
    return ended([](LanguageTrainer& t) { return t.finish(); });
  }
  TrainResult run() {
    return ended([](LanguageTrainer& t) { return t.run(); });
  }
  LanguageTrainer& trainer() {
    if (!trainer_) throw Error("the trainer is closed");
    return *trainer_;
  }
  // What a callback may ask, too, but no other thread while the trainer is at work.
  template <class F>
  auto ask(const F& f) {
    const OneAtATime::Turn turn(turns_, kName, true);
    return f(trainer());
  }
  std::optional<double> evaluate() {
    const OneAtATime::Turn turn(turns_, kName);
    std::optional<double> loss;
    try {
      const ReleasedGil release;
      loss = trainer().evaluate([this] { return reporter_->should_stop(); });
    } catch (const WorkStopped&) {  // by Ctrl-C
    }
    reporter_->rethrow();
    return loss;
  }
  std::string save() {
    const OneAtATime::Turn turn(turns_, kName);
    std::string path = [this] {
      const ReleasedGil release;
      return trainer().save();
    }();
    reporter_->rethrow();
    return path;
  }
  // The model outlives close() where Python holds it.
  nb::object model() {
    return ask([this](LanguageTrainer& t) {
      auto held = std::make_unique<std::shared_ptr<LanguageTrainer>>(trainer_);
      const nb::capsule owner(held.get(), [](void* p) noexcept {
        const ReleasedGil release;
        delete static_cast<std::shared_ptr<LanguageTrainer>*>(p);
      });
      static_cast<void>(held.release());
      return nb::cast(t.model(), nb::rv_policy::reference_internal, owner);
    });
  }
  void close() {
    const OneAtATime::Turn turn(turns_, kName);
    trainer_.reset();
    lock_.reset();
  }

 private:
  static constexpr const char* kName = "the trainer";

  template <class F>
  TrainResult ended(const F& f) {
    const OneAtATime::Turn turn(turns_, kName);
    TrainResult result = [&] {
      const ReleasedGil release;
      return f(trainer());
    }();
    reporter_->rethrow();
    lock_->check();  // not that of a directory where nothing was written
    return result;
  }

  std::shared_ptr<PythonReporter> reporter_;
  std::unique_ptr<DirectoryLock> lock_;
  std::shared_ptr<LanguageTrainer> trainer_;
  OneAtATime turns_;
};

nb::dict as_dict(const TrainResult& r) {
  nb::dict result;
  result["end"] = std::string(name(r.end));
  result["steps"] = r.steps;
  result["train_loss"] = r.train_loss;
  result["validation_loss"] = r.validation_loss;
  result["best_validation_loss"] = r.best_validation_loss;
  nb::list events;
  for (const EventRecord& event : r.events) events.append(as_dict(event));
  result["events"] = events;
  result["model"] = r.model_directory;
  result["checkpoint"] = r.last_checkpoint;
  return result;
}

nb::list history(Trainer& self) {
  nb::list result;
  self.ask([&](LanguageTrainer& t) {
    for (const StepRecord& record : t.history().steps()) result.append(as_dict(record));
  });
  return result;
}

}  // namespace

void bind_training(nb::module_& module) {
  nb::class_<Trainer>(module, "_Trainer")
      .def(nb::init<const std::string&, const std::string&, const std::vector<std::string>&, bool,
                    nb::object>(),
           "yaml"_a, "name"_a, "changes"_a, "resume"_a, "callback"_a.none())
      .def("step", &Trainer::step)
      .def("finish", [](Trainer& self) { return as_dict(self.finish()); })
      .def("run", [](Trainer& self) { return as_dict(self.run()); })
      .def("evaluate", &Trainer::evaluate)
      .def("save", &Trainer::save)
      .def("close", &Trainer::close, ReleaseGil())
      .def("history", history)
      .def_prop_ro("steps_done",
                   [](Trainer& self) { return self.ask([](LanguageTrainer& t) { return t.steps_done(); }); })
      .def_prop_ro("total_steps",
                   [](Trainer& self) { return self.ask([](LanguageTrainer& t) { return t.total_steps(); }); })
      .def_prop_ro(
          "device",
          [](Trainer& self) { return self.ask([](LanguageTrainer& t) { return to_string(t.device()); }); })
      .def_prop_ro("model", &Trainer::model)
      .def_prop_ro("tokenizer",
                   [](Trainer& self) { return self.ask([](LanguageTrainer& t) { return t.tokenizer(); }); });
}

}  // namespace ingot::python
