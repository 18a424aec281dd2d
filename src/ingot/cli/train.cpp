#include <chrono>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/config.h"
#include "ingot/base/directory_lock.h"
#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/hash.h"
#include "ingot/base/json.h"
#include "ingot/base/plural.h"
#include "ingot/base/printable.h"
#include "ingot/base/shell.h"
#include "ingot/base/units.h"
#include "ingot/base/version.h"
#include "ingot/cli/command.h"
#include "ingot/cli/commands.h"
#include "ingot/cli/config_keys.h"
#include "ingot/cli/explain.h"
#include "ingot/cli/interrupt.h"
#include "ingot/cli/ranks.h"
#include "ingot/cli/training_console.h"
#include "ingot/dist/communicator.h"
#include "ingot/runtime/compute_backend.h"
#include "ingot/train/language/other_keys.h"
#include "ingot/train/language/train_keys.h"

namespace ingot::cli {
namespace {

struct TrainOptions {
  std::string config;
  std::vector<std::string> set;
  std::optional<std::string> keys;
  bool resume = false, json = false, explain = false, dashboard = false;
};

// `base`: the model that an adapter was trained for; empty where a whole model was trained.
void tell_how_to_use(const std::string& trained, const std::string& base) {
  if (base.empty()) {
    fmt::print("  model       {}\n\nTry it:\n  ingot generate {} --prompt 'Once'\n", printable(trained),
               shell_word(trained));
  } else {
    fmt::print(
        "  adapter     {}\n\nTry it, or make one model of the two:\n  ingot generate {} --adapter {} "
        "--prompt "
        "'Once'\n  ingot merge {} {}-merged --adapter {}\n",
        printable(trained), shell_word(base), shell_word(trained), shell_word(base), shell_word(trained),
        shell_word(trained));
  }
}

std::string of_rank(const MemoryRecord& memory, const MemoryRecord::Most& most) {
  return memory.ranks > 1 ? fmt::format(" (rank {} of {})", most.rank, memory.ranks) : "";
}

void print_result(const TrainOptions& o, const TrainResult& r, const std::string& report,
                  const std::string& base) {
  if (o.json) {
    nlohmann::ordered_json json{{"end", name(r.end)}, {"steps", r.steps}};
    if (r.steps > 0) json["train_loss"] = r.train_loss;
    if (r.validation_loss) json["validation_loss"] = *r.validation_loss;
    if (r.best_validation_loss) json["best_validation_loss"] = *r.best_validation_loss;
    json["peak_memory"] = {{"tensors", static_cast<std::uint64_t>(r.memory.tensors.bytes)},
                           {"tensors_rank", r.memory.tensors.rank},
                           {"resident", static_cast<std::uint64_t>(r.memory.resident.bytes)},
                           {"resident_rank", r.memory.resident.rank}};
    json["events"] = nlohmann::ordered_json::array();
    for (const EventRecord& e : r.events)
      json["events"].push_back({{"step", e.step}, {"event", e.kind}, {"text", e.text}});
    json.update(nlohmann::ordered_json{
        {"model", r.model_directory}, {"checkpoint", r.last_checkpoint}, {"report", report}});
    fmt::print("{}\n", printable_json(dump_json(json, 2)));
    return;
  }
  fmt::print("\n{} after {}", name(r.end), counted(r.steps, "step"));
  if (r.steps > 0) fmt::print(": training loss {:.4f}", r.train_loss);
  if (r.validation_loss) fmt::print(", validation loss {:.4f}", *r.validation_loss);
  fmt::print(
      "\n  memory      at most {} of tensors{}, {} of a process{}\n",
      human_bytes(static_cast<std::uint64_t>(r.memory.tensors.bytes)), of_rank(r.memory, r.memory.tensors),
      human_bytes(static_cast<std::uint64_t>(r.memory.resident.bytes)), of_rank(r.memory, r.memory.resident));
  if (!r.events.empty())
    fmt::print("  loss        {}, the last at step {}: {}\n", counted(std::ssize(r.events), "event"),
               r.events.back().step, r.events.back().text);
  fmt::print("  checkpoint  {}\n", printable(r.last_checkpoint));
  if (!report.empty()) fmt::print("  report      {}\n", printable(report));
  if (r.model_directory.empty()) {
    std::string settings;
    for (const std::string& assignment : o.set) settings += " --set " + shell_word(assignment);
    fmt::print("\nGo on with:\n  ingot train {}{} --resume\n", shell_word(o.config), settings);
  } else {
    tell_how_to_use(r.model_directory, base);
  }
}

int exit_code(TrainEnd end) {
  if (end == TrainEnd::stopped) return interrupt_exit_code();
  return end == TrainEnd::loss_too_high ? 1 : 0;
}

// Other ranks than the first of several compute and say nothing.
int train_quietly(const TrainConfig& config) {
  LanguageTrainer trainer(config, {.should_stop = [] { return interrupted(); }});
  const InterruptWatch watch;
  return exit_code(trainer.run().end);
}

int train(const TrainOptions& o, dist::Communicator& ranks) {
  Config file = Config::load(o.config);
  for (const std::string& assignment : o.set) file.set(assignment);
  if (o.resume) file.set("resume_from_checkpoint=true");
  TrainConfig config = read_train_config(file);
  if (!ranks.is_first()) ranks.barrier();  // the first fetches what is on a hub
  fetch_from_hub(config);
  if (ranks.is_first()) ranks.barrier();
  if (!ranks.is_first()) return train_quietly(config);
  const DirectoryLock lock(config.output_dir);
  TrainingConsole console(config,
                          {.json = o.json, .dashboard = o.dashboard, .effective_config = file.effective()});
  LanguageTrainerHooks hooks = console.hooks();
  hooks.should_stop = [&lock, asked = std::move(hooks.should_stop)] {
    lock.check();
    return asked && asked();
  };
  LanguageTrainer trainer(config, std::move(hooks));
  write_file_atomically(config.output_dir + "/config.yaml", file.dump());
  if (!o.json) {
    const LanguageConfig& model = trainer.model().config;
    const std::int64_t tokens = config.tokens_per_step() * ranks.size();
    fmt::print("{} parameters{} on {}{}, {} steps of {} tokens",
               human_count(static_cast<double>(model.parameter_count())),
               config.adapter.enabled
                   ? fmt::format(", {} of adapters train",
                                 human_count(static_cast<double>(count_parameters(trainer.model(), true))))
                   : "",
               to_string(trainer.device()),
               ranks.size() > 1 ? fmt::format(" in each of {} processes", ranks.size()) : "",
               trainer.total_steps(), human_count(static_cast<double>(tokens)));
    if (trainer.steps_done() > 0) fmt::print(", going on after step {}", trainer.steps_done());
    fmt::print("\n");
  }
  const TrainResult result = console.run(trainer);
  lock.check();  // the last checkpoint may have been written somewhere else
  print_result(o, result, console.report(), config.adapter.enabled ? config.model : "");
  return exit_code(result.end);
}

// A key of another program that is read, too.
bool tell_other_key(const std::string& word, bool json) {
  using Fate = OtherKey::Fate;
  const OtherKey other = find_other_key(word, "true");
  if (other.fate == Fate::none) return false;
  std::string doc = "Read as " + other.advice;
  if (other.fate == Fate::without_effect) doc = "Read, without effect on the result";
  if (other.fate == Fate::missing) doc = "Not available, the run does without: " + other.advice;
  if (other.fate == Fate::refused) doc = "Refused: " + other.advice;
  if (!json) {
    fmt::print("Keys of axolotl and Surogate\n  {}\n      {}.\n", word, doc);
    return true;
  }
  using Json = nlohmann::ordered_json;
  const Json keys = Json::array({{{"key", word}, {"doc", doc}}});
  fmt::print("{}\n", printable_json(dump_json(
                         Json::array({{{"section", "Keys of axolotl and Surogate"}, {"keys", keys}}}), 2)));
  return true;
}

int print_keys(const std::string& word, bool json) {
  try {
    return print_config_keys(train_reference(), word, json);
  } catch (const InvalidConfig&) {  // no key of Ingot's has it
    if (!tell_other_key(word, json)) throw;
    return 0;
  }
}

int run(const TrainOptions& o) {
  if (o.keys) return print_keys(*o.keys, o.json);
  INGOT_CHECK(!o.config.empty(),
              InvalidConfig("config",
                            "is missing: name a YAML file (ingot train --keys tells what may stand in it)"));
  if (o.explain) return explain_config(o.config, o.set, o.json);
  dist::Communicator& ranks = dist::world();
  return run_as_ranks(ranks, o.json, [&] { return train(o, ranks); });
}

}  // namespace

void add_train(Command& root) {
  auto o = std::make_shared<TrainOptions>();
  Command command =
      root.subcommand("train",
                      "Train a language model as a YAML file says: from scratch, from a model, or an "
                      "adapter for one (LoRA, QLoRA)");
  command.option("config", o->config, "Training configuration: a YAML file; --keys lists every key");
  command.option("--from", o->config, "The same, of a file that was written for axolotl or Surogate")
      .placeholder("CONFIG");
  command.option("--set", o->set, "Change a key: --set learning_rate=1e-3 (may be repeated)")
      .placeholder("KEY=VALUE");
  command.option("--keys", o->keys, "List the keys of the configuration, or those that tell of WORD, and end")
      .alone("");
  command.flag(
      "--explain", o->explain,
      "Print what is understood, what has no effect and which defaults differ from axolotl's, and end");
  command.flag("--resume", o->resume,
               "Go on from the newest whole checkpoint of output_dir, bit for bit; without one, begin");
  command.flag("--dashboard", o->dashboard,
               "Loss curve, speed and memory on the terminal; where there is none, lines as without");
  command.flag("--json", o->json, "No progress bar; print the result as JSON");
  command.example("ingot train train.yaml --set output_dir=out/try2", "train into another directory");
  command.example("ingot train train.yaml --set base_model=model.gguf --set adapter=qlora",
                  "fine-tune a quantized model with LoRA adapters");
  command.example("ingot train --keys lora", "which keys there are for LoRA, and what they mean");
  command.example("ingot train --from axolotl.yml --explain", "what becomes of each key, without training");
  command.example("mpirun -n 4 ingot train train.yaml",
                  "four processes, each with a share of every step's batch");
  command.example("ingot train train.yaml --resume", "go on after a crash, a kill or Ctrl-C");
  command.run([o] { return run(*o); });
}

}  // namespace ingot::cli
