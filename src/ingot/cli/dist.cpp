#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/json.h"
#include "ingot/base/printable.h"
#include "ingot/base/units.h"
#include "ingot/cli/arguments.h"
#include "ingot/cli/command.h"
#include "ingot/cli/commands.h"
#include "ingot/cli/ranks.h"
#include "ingot/cli/text_table.h"
#include "ingot/dist/check.h"
#include "ingot/dist/device_ranks.h"

namespace ingot::cli {
namespace {

using Json = nlohmann::ordered_json;

struct DistOptions {
  std::string device = "auto", size = "64MiB";
  double timeout = 60;
  bool json = false;
};

Json describe(const std::string& memory, const std::string& engine,
              const std::vector<dist::CheckedOperation>& operations) {
  Json rows = Json::array();
  for (const dist::CheckedOperation& row : operations)
    rows.push_back({{"operation", row.name},
                    {"right", row.right},
                    {"seconds", row.seconds},
                    {"bytes_per_second", row.bytes_per_second}});
  return {{"memory", memory}, {"engine", engine}, {"operations", rows}};
}

void print_result(const Json& result) {
  for (const Json& memory : result) {
    ReportTable table{.title = fmt::format("{}: {}", memory["memory"].get<std::string>(),
                                           memory["engine"].get<std::string>()),
                      .columns = {"operation", "result", "ms", "a rank moves"},
                      .rows = {}};
    for (const Json& row : memory["operations"])
      table.rows.push_back(
          {row["operation"].get<std::string>(), row["right"].get<bool>() ? "right" : "WRONG",
           fmt::format("{:.3f}", row["seconds"].get<double>() * 1e3),
           human_bytes(static_cast<std::uint64_t>(row["bytes_per_second"].get<double>())) + "/s"});
    print_text_table(table);
  }
}

int check(const DistOptions& o, dist::Communicator& ranks) {
  INGOT_CHECK(ranks.size() > 1,
              InvalidConfig("mpirun",
                            "is missing: this looks at what moves between processes; start several: "
                            "mpirun -n 2 ingot dist check"));
  ranks.set_timeout(o.timeout);
  ranks.set_activity("the check");
  const Device device = dist::choose_rank_device(ranks, o.device);
  const std::size_t bytes = parse_bytes(o.size, "--size");
  dist::connect_devices(ranks, device);
  Json result = Json::array();
  result.push_back(describe("cpu", ranks.engine(), dist::check_operations(ranks, kCpu, bytes)));
  if (device != kCpu) {
    const dist::Communicator* engine = ranks.of(device);
    const std::string name =
        engine != nullptr ? engine->engine() : "over the hosts' memory, " + ranks.engine();
    result.push_back(describe(to_string(device), name, dist::check_operations(ranks, device, bytes)));
  }
  bool right = true;
  for (const Json& memory : result)
    for (const Json& row : memory["operations"]) right = right && row["right"].get<bool>();
  if (!ranks.is_first()) return right ? 0 : 1;
  if (o.json) {
    fmt::print("{}\n", printable_json(dump_json(Json{{"ranks", ranks.size()}, {"memories", result}}, 2)));
  } else {
    print_result(result);
  }
  INGOT_CHECK(right,
              Error("ranks: an operation gave wrong values (the table names it): the network, the engine or "
                    "the driver is at fault; try INGOT_NCCL=0"));
  return 0;
}

}  // namespace

void add_dist(Command& root) {
  auto o = std::make_shared<DistOptions>();
  Command command = root.subcommand("dist", "Look at what moves between the processes of a run");
  command.example("mpirun -n 2 ingot dist check", "whether the processes reach each other");
  Command checking =
      command.subcommand("check", "Do every operation between the processes: is it right, how fast?");
  checking.option("--device", o->device, "auto, cpu, cuda, or cuda:N");
  checking.option("--size", o->size, "Bytes of a tensor");
  checking.option("--timeout", o->timeout, "Seconds after which a process that does not come is named");
  checking.flag("--json", o->json, "Print JSON");
  checking.example("mpirun -n 2 ingot dist check", "before a long run");
  checking.run([o] {
    dist::Communicator& ranks = dist::world();
    return run_as_ranks(ranks, o->json, [&] { return check(*o, ranks); });
  });
}

}  // namespace ingot::cli
