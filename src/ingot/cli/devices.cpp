#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "ingot/base/error.h"
#include "ingot/base/json.h"
#include "ingot/base/parallel.h"
#include "ingot/base/printable.h"
#include "ingot/base/units.h"
#include "ingot/cli/commands.h"
#include "ingot/cli/help_page.h"
#include "ingot/cli/ranks.h"
#include "ingot/cli/text_table.h"
#include "ingot/core/backend.h"
#include "ingot/core/device_config.h"
#include "ingot/dist/device_ranks.h"
#include "ingot/kernels/quantized.h"
#include "ingot/kernels/weight_only.h"
#include "ingot/runtime/compute_backend.h"

namespace ingot::cli {
namespace {

nlohmann::ordered_json describe(ComputeBackend& backend, bool chosen) {
  const BackendCapabilities& has = backend.capabilities();
  MemoryInfo memory{0, has.total_memory};
  std::string problem;
  try {
    memory = backend.memory_info();
  } catch (const Error& error) {  // one that is full, or another process's alone, must not hide the others
    problem = error.what();
  }
  std::vector<std::string> dtypes;
  for (const DType dtype : has.dtypes) dtypes.emplace_back(name(dtype));
  nlohmann::ordered_json json{
      {"device", to_string(backend.device())}, {"name", has.device_name},   {"chosen", chosen},
      {"compute_units", has.compute_units},    {"features", has.features},  {"dtypes", dtypes},
      {"memory_total", memory.total},          {"memory_free", memory.free}};
  json["int8_matmul"] = has.int8_matmul;
  json["attention"] = has.attention;
  json["memory_alignment"] = has.memory_alignment;
  json["max_rank"] = has.max_rank;
  const BackendStatus status = backend.status();
  json["ready"] = status.state == BackendState::ready;
  if (problem.empty()) problem = status.last_error;
  if (!problem.empty()) json["problem"] = problem;
  return json;
}

// What matmuls with weights of a format run on: all implementations on the CPU, the first best, and of them
// the first that INGOT_BACKEND allows here.
template <class Args>
void add_kernel(nlohmann::ordered_json& format, const kernels::Kernel<Args>& kernel) {
  std::string_view chosen = "nothing";
  nlohmann::ordered_json implementations = nlohmann::ordered_json::array();
  for (const auto& implementation : kernel.implementations(DeviceType::cpu)) {
    if (chosen == "nothing" && implementation.needs <= kernels::instruction_set_limit())
      chosen = implementation.name;
    implementations.push_back(implementation.name);
  }
  format["runs_on"] = chosen;
  format["kernel"] = kernel.name();
  format["implementations"] = std::move(implementations);
}

nlohmann::ordered_json describe_backends() {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const ComputeBackendChoice& choice : compute_backends())
    list.push_back({{"backend", choice.name},
                    {"chosen", choice.name == compute_backend()},
                    {"available", choice.available},
                    {"detail", choice.detail}});
  return list;
}

nlohmann::ordered_json describe_formats() {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (int i = 0; i < kernels::kPackedFormats; ++i) {
    const auto format = static_cast<kernels::PackedFormat>(i);
    const kernels::PackedLayout layout = kernels::packed_layout(format);
    const double bits = 8.0 * static_cast<double>(layout.step_bytes()) /
                        static_cast<double>(layout.step_cols() * kernels::kPanelRows);
    nlohmann::ordered_json& row =
        list.emplace_back(nlohmann::ordered_json{{"format", layout.name}, {"bits_per_weight", bits}});
    if (kernels::is_weight_only(format)) {
      add_kernel(row, kernels::weight_only_matmul);
    } else if (kernels::is_row_scaled(format)) {
      add_kernel(row, kernels::row_scaled_matmul);
    } else {
      add_kernel(row, kernels::quantized_matmul);
    }
  }
  return list;
}

void print_backends() {
  fmt::print("\nbackends (INGOT_BACKEND=NAME chooses)\n");
  for (const auto& backend : describe_backends())
    fmt::print("{} {:<11} {}\n",
               backend["chosen"].get<bool>()      ? "*"
               : backend["available"].get<bool>() ? " "
                                                  : "-",
               backend["backend"].get<std::string>(),
               wrap_on_terminal(backend["detail"].get<std::string>(), 14, STDOUT_FILENO));
  fmt::print("\npacked weights      bits  run on\n");
  for (const auto& format : describe_formats())
    fmt::print("  {:<16} {:>5.2f}  {}\n", format["format"].get<std::string>(),
               format["bits_per_weight"].get<double>(), format["runs_on"].get<std::string>());
}

int run(bool json) {
  DeviceConfig config = DeviceConfig::from_env();
  config.program = "ingot devices";
  const BackendRegistry& registry = BackendRegistry::instance();
  const Device wanted{DeviceType::cuda, static_cast<std::int8_t>(config.cuda_device)};
  const Device chosen = !config.force_cpu && registry.find(wanted) != nullptr ? wanted : kCpu;
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (ComputeBackend* backend : registry.all())
    list.push_back(describe(*backend, backend->device() == chosen));
  if (json) {
    const nlohmann::ordered_json all{
        {"devices", list}, {"backends", describe_backends()}, {"formats", describe_formats()}};
    fmt::print("{}\n", printable_json(dump_json(all, 2)));
    return 0;
  }
  for (const auto& device : list) {
    fmt::print("{} {:<8} {}\n", device["chosen"].get<bool>() ? "*" : " ", device["device"].get<std::string>(),
               device["name"].get<std::string>());
    fmt::print("    memory    {} free of {}\n", human_bytes(device["memory_free"].get<std::uint64_t>()),
               human_bytes(device["memory_total"].get<std::uint64_t>()));
    fmt::print("    units     {} ({} threads in use)\n", device["compute_units"].get<int>(), num_threads());
    for (const char* list : {"features", "dtypes", "attention"}) {
      const std::string words =
          fmt::format("{}", fmt::join(device[list].get<std::vector<std::string>>(), " "));
      fmt::print("    {:<9} {}\n", list, wrap_on_terminal(words, 14, STDOUT_FILENO));
    }
    if (device.contains("problem")) fmt::print("    problem   {}\n", device["problem"].get<std::string>());
  }
  print_backends();
  fmt::print("\n{}\n", wrap_on_terminal("* is what commands use. INGOT_FORCE_CPU=1 and INGOT_CUDA_DEVICE=N "
                                        "choose another.",
                                        0, STDOUT_FILENO));
  return 0;
}

// What moves the memory of the ranks' GPUs, or why they cannot run together.
std::string gpu_engine(const std::vector<dist::DeviceOfRank>& ranks) {
  try {
    const dist::DeviceEngine engine = dist::choose_engine(ranks);
    if (engine.nccl) return "NCCL " + ranks.front().nccl;
    return engine.reason.empty() ? "" : "over the hosts' memory, not with NCCL: " + engine.reason;
  } catch (const InvalidConfig& error) {
    return std::string("nothing: ") + error.what();
  }
}

// Of a run's processes: which device each takes, and what moves bytes between them.
int run_of_ranks(dist::Communicator& communicator, bool json) {
  const Device device = dist::choose_rank_device(communicator, "auto");
  const std::vector<dist::DeviceOfRank> ranks = dist::devices_of_ranks(communicator, device);
  if (!communicator.is_first()) return 0;
  const std::string gpus = ranks.size() > 1 ? gpu_engine(ranks) : "";
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  ReportTable table{
      .title = "ranks", .columns = {"rank", "host", "device", "name", "memory", "PCI address"}, .rows = {}};
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const dist::DeviceOfRank& rank = ranks[i];
    table.rows.push_back({std::to_string(i), rank.host, rank.device, rank.name, rank.memory, rank.address});
    list.push_back({{"rank", i},
                    {"host", rank.host},
                    {"device", rank.device},
                    {"name", rank.name},
                    {"memory", rank.memory},
                    {"pci_address", rank.address},
                    {"nccl", rank.nccl},
                    {"problem", rank.problem}});
  }
  if (json) {
    fmt::print("{}\n", printable_json(dump_json(
                           nlohmann::ordered_json{
                               {"ranks", list}, {"host_memory", communicator.engine()}, {"gpu_memory", gpus}},
                           2)));
    return 0;
  }
  print_text_table(table);
  fmt::print("host memory goes by  {}\n", communicator.engine());
  if (!gpus.empty()) fmt::print("GPU memory goes by   {}\n", gpus);
  return 0;
}

}  // namespace

void add_devices(Command& root) {
  auto json = std::make_shared<bool>(false);
  auto ranks = std::make_shared<bool>(false);
  Command command = root.subcommand("devices", "Show the processors and GPUs that Ingot can use");
  command.flag("--ranks", *ranks,
               "Of each process that a launcher started: its device, and what moves bytes between them");
  command.flag("--json", *json, "Print JSON");
  command.example("INGOT_FORCE_CPU=1 ingot devices", "what would be used without the GPU");
  command.example("mpirun -n 2 ingot devices --ranks",
                  "which GPU each process takes, and whether NCCL is used");
  command.run([json, ranks] {
    if (!*ranks) return run(*json);
    dist::Communicator& communicator = dist::world();
    return run_as_ranks(communicator, *json, [&] { return run_of_ranks(communicator, *json); });
  });
}

}  // namespace ingot::cli
