#include <memory>

#include "ingot/benchmark/selfplay.h"
#include "ingot/cli/arguments.h"
#include "ingot/cli/bench.h"

namespace ingot::cli {

void add_bench_selfplay(Command& bench) {
  auto o = std::make_shared<benchmark::SelfplayOptions>();
  auto json = std::make_shared<bool>(false);
  Command command = bench.subcommand(
      "selfplay", "Time mahjong's self-play: the games, the network and PPO's steps, one after another");
  command.option("--channels", o->channels, "Of the network");
  command.option("--blocks", o->blocks, "Residual blocks of the network");
  command.option("--tables", o->tables, "Games that are played together");
  command.option("--rollout-steps", o->rollout_steps, "Decisions of each game that a run takes");
  command.option("--minibatch", o->minibatch, "Decisions of a step of PPO");
  add_device_option(command, o->device);
  command.option("--dtype", o->dtype, "Of the network: f32 or bf16").one_of({"f32", "bf16"});
  command.option("--runs", o->runs, "Runs to take the median of");
  add_torch_options(command, o->torch);
  command.flag("--breakdown", o->breakdown, "Show where an evaluation's time goes, kernel by kernel");
  command.flag("--json", *json, "Print JSON");
  command.example("ingot bench selfplay", "a small network on the CPU");
  command.example("ingot bench selfplay --against torch --python ~/venv/bin/python",
                  "in turn with a loop of riichienv and PyTorch");
  command.example(
      "ingot bench selfplay --device cuda --dtype bf16 --channels 256 --blocks 40 --tables 2048 "
      "--minibatch 4096",
      "the full network on a GPU");
  command.run([o, json] {
    check_positive({{"--channels", o->channels},
                    {"--blocks", o->blocks},
                    {"--tables", o->tables},
                    {"--rollout-steps", o->rollout_steps},
                    {"--minibatch", o->minibatch},
                    {"--runs", o->runs}});
    return show(benchmark::time_selfplay(*o), *json);
  });
}

}  // namespace ingot::cli
