#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/config.h"
#include "ingot/base/directory_lock.h"
#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/json.h"
#include "ingot/base/plural.h"
#include "ingot/base/printable.h"
#include "ingot/base/shell.h"
#include "ingot/base/units.h"
#include "ingot/cli/config_keys.h"
#include "ingot/cli/interrupt.h"
#include "ingot/cli/mahjong_games.h"
#include "ingot/cli/ranks.h"
#include "ingot/dist/communicator.h"
#include "ingot/rl/mahjong_train_keys.h"
#include "ingot/rl/mahjong_training.h"

namespace ingot::cli {
namespace {

struct MahjongTrainOptions {
  std::string config;
  std::vector<std::string> set;
  std::optional<std::string> keys;
  bool resume = false, json = false;
};

void print_mahjong_result(const MahjongTrainOptions& o, const MahjongTrainResult& r,
                          const std::string& phase) {
  if (o.json) {
    nlohmann::ordered_json json{{"end", name(r.end)}, {"steps", r.steps}};
    if (r.steps > 0) json["train_loss"] = r.train_loss;
    if (r.evaluation) {
      json["validation_loss"] = r.evaluation->loss;
      for (const auto& [key, value] : r.evaluation->values) json["validation"][key] = value;
    }
    json.update(nlohmann::ordered_json{{"model", r.model_directory}, {"checkpoint", r.last_checkpoint}});
    fmt::print("{}\n", printable_json(dump_json(json, 2)));
    return;
  }
  fmt::print("\n{} after {}", name(r.end), counted(r.steps, "step"));
  if (r.steps > 0) fmt::print(": training loss {:.4f}", r.train_loss);
  if (r.evaluation) fmt::print(", validation loss {:.4f}", r.evaluation->loss);
  fmt::print("\n  checkpoint  {}\n", printable(r.last_checkpoint));
  if (r.model_directory.empty())
    fmt::print("\nGo on with:\n  ingot mahjong train {} --resume\n", shell_word(o.config));
  else if (phase == "grp")
    fmt::print("  model       {}\n\nPay places in self-play:\n  --set reward_model={}\n",
               printable(r.model_directory), shell_word(r.model_directory));
  else if (phase == "oracle")
    fmt::print("  model       {}\n\nTeach a player:\n  --set phase=distil --set teacher={}\n",
               printable(r.model_directory), shell_word(r.model_directory));
  else
    fmt::print("  model       {}\n\nLet it play:\n  ingot mahjong arena model:{} rule-based\n",
               printable(r.model_directory), shell_word(r.model_directory));
}

// Other ranks than the first of several play and learn, and say nothing.
int train_mahjong_quietly(const MahjongTrainConfig& config) {
  MahjongTraining training(config, {.should_stop = [] { return interrupted(); }});
  const InterruptWatch watch;
  return training.run().end == TrainEnd::stopped ? interrupt_exit_code() : 0;
}

int train_mahjong(const MahjongTrainOptions& o, const dist::Communicator& ranks) {
  Config file = Config::load(o.config);
  for (const std::string& assignment : o.set) file.set(assignment);
  if (o.resume) file.set("resume_from_checkpoint=true");
  const MahjongTrainConfig config = read_mahjong_train_config(file);
  if (!ranks.is_first()) return train_mahjong_quietly(config);
  const DirectoryLock lock(config.output_dir);
  MahjongTrainHooks hooks{.should_stop =
                              [&lock] {
                                lock.check();
                                return interrupted();
                              },
                          .effective_config = file.effective()};
  if (!o.json) hooks.reporters = make_reporters({"console"});
  MahjongTraining training(config, std::move(hooks));
  write_file_atomically(config.output_dir + "/config.yaml", file.dump());
  if (!o.json) {
    fmt::print("{} parameters; {}\n", human_count(static_cast<double>(count_parameters(training.network()))),
               training.description());
    if (const std::int64_t done = training.trainer().progress().step; done > 0)
      fmt::print("going on after step {}\n", done);
  }
  const InterruptWatch watch;
  const MahjongTrainResult result = training.run();
  lock.check();
  print_mahjong_result(o, result, config.phase);
  return result.end == TrainEnd::stopped ? interrupt_exit_code() : 0;
}

int run_mahjong_training(const MahjongTrainOptions& o) {
  if (o.keys) return print_config_keys(mahjong_train_reference(), *o.keys, o.json);
  INGOT_CHECK(!o.config.empty(),
              InvalidConfig("config",
                            "is missing: name a YAML file (ingot mahjong train --keys tells what "
                            "may stand in it)"));
  dist::Communicator& ranks = dist::world();
  return run_as_ranks(ranks, o.json, [&] { return train_mahjong(o, ranks); });
}

}  // namespace

void add_mahjong_train(Command& mahjong) {
  auto o = std::make_shared<MahjongTrainOptions>();
  Command command = mahjong.subcommand(
      "train",
      "Train a player as a YAML file says: phases grp and bc learn from logs, ppo, oracle and distil from "
      "playing");
  command.option("config", o->config, "Training configuration: a YAML file; --keys lists every key");
  command.option("--set", o->set, "Change a key: --set learning_rate=1e-3 (may be repeated)")
      .placeholder("KEY=VALUE");
  command.option("--keys", o->keys, "List the keys of the configuration, or those that tell of WORD, and end")
      .alone("");
  command.flag("--resume", o->resume,
               "Go on from the newest whole checkpoint of output_dir, bit for bit; without one, begin");
  command.flag("--json", o->json, "No progress bar; print the result, or --keys, as JSON");
  command.example("ingot mahjong train bc.yaml", "learn from games");
  command.example("ingot mahjong train ppo.yaml --set base_model=bc/model",
                  "get stronger from there by self-play");
  command.example("mpirun -n 4 ingot mahjong train ppo.yaml",
                  "four processes, each with a share of the tables and of every minibatch");
  command.run([o] { return run_mahjong_training(*o); });
}

}  // namespace ingot::cli
