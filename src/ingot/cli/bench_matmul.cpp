#include <memory>

#include "ingot/base/error.h"
#include "ingot/base/parallel.h"
#include "ingot/benchmark/matmul.h"
#include "ingot/cli/bench.h"

namespace ingot::cli {

void add_bench_matmul(Command& bench) {
  auto o = std::make_shared<benchmark::MatmulOptions>();
  auto threads = std::make_shared<std::int64_t>(0);
  auto json = std::make_shared<bool>(false);
  Command command = bench.subcommand("matmul", "Time one matmul with a weight in each format");
  command.option("--format", o->formats, "Formats to time, several; none: those that matter most");
  command.option("--against", o->against, "The format that speeds are given relative to; f32 runs on oneDNN");
  command.option("--out", o->out, "Rows of the weight");
  command.option("--in", o->in, "Columns of the weight");
  command.option("--batch", o->batch, "Rows of activations: 1 as when writing, 512 as when reading a prompt");
  command.option("--runs", o->runs, "Runs to take the median of");
  command.option("--threads", *threads, "Threads; 0: one per processor");
  command.flag("--json", *json, "Print JSON");
  command.example("ingot bench matmul --batch 512 --format q4_k --format nf4",
                  "how a prompt's matmuls compare");
  command.run([o, threads, json] {
    check_positive({{"--out", o->out}, {"--in", o->in}, {"--batch", o->batch}, {"--runs", o->runs}});
    INGOT_CHECK(*threads >= 0, InvalidConfig("--threads", "must be positive, or 0 for all, got " +
                                                              std::to_string(*threads)));
    if (*threads > 0) set_num_threads(static_cast<int>(*threads));
    return show(benchmark::time_matmul(*o), *json);
  });
}

}  // namespace ingot::cli
