#include <memory>

#include "ingot/benchmark/policy.h"
#include "ingot/cli/bench.h"

namespace ingot::cli {

void add_bench_policy(Command& bench) {
  auto o = std::make_shared<benchmark::PolicyOptions>();
  auto json = std::make_shared<bool>(false);
  Command command =
      bench.subcommand("policy", "Time the SE-ResNet policy network (40 blocks of 256 channels)");
  command.flag("--train", o->train, "Whole training steps instead of inference");
  command.option("--batch", o->batch, "Observations at once");
  command.option("--runs", o->runs, "Runs to take the median of");
  add_torch_options(command, o->torch);
  command.flag("--breakdown", o->breakdown, "One more run that shows where its time goes, kernel by kernel");
  command.flag("--json", *json, "Print JSON");
  command.example(
      "ingot bench policy --train --batch 256 --runs 3 --against torch --python ~/venv/bin/python",
      "training steps in turn with PyTorch's");
  command.run([o, json] {
    check_positive({{"--batch", o->batch}, {"--runs", o->runs}});
    return show(benchmark::time_policy(*o), *json);
  });
}

}  // namespace ingot::cli
