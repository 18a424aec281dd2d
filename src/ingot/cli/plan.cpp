#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/config.h"
#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/json.h"
#include "ingot/base/printable.h"
#include "ingot/base/units.h"
#include "ingot/cli/arguments.h"
#include "ingot/cli/commands.h"
#include "ingot/cli/text_table.h"
#include "ingot/core/backend.h"
#include "ingot/train/language/language_trainer.h"
#include "ingot/train/language/new_tokens.h"
#include "ingot/train/language/planning/run_plan.h"
#include "ingot/train/machine_limit.h"

namespace ingot::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kMostPlanned = 1 << 16, kDefaultTokens = 524288, kDefaultSequence = 1024;

constexpr const char* kAllGpus = "all";

struct PlanOptions {
  std::string model, gpu = "h100", hardware, link, memory, output;
  std::vector<std::string> set;
  std::int64_t gpus = 8, nodes = 1;
  std::optional<std::int64_t> tokens, batch, sequence;
  std::optional<double> flops, bandwidth;
  bool direct = false, json = false;
};

bool is_training_file(const std::string& path) { return path.ends_with(".yaml") || path.ends_with(".yml"); }

void read_run(const PlanOptions& o, RunPlanRequest& request) {
  if (is_training_file(o.model)) {
    Config file = Config::load(o.model);
    for (const std::string& assignment : o.set) file.set(assignment);
    request.config = read_train_config(file);
    request.model = plan_new_tokens(request.config);
    request.tokens_per_step = request.config.tokens_per_step() * o.gpus;
  } else {
    INGOT_CHECK(o.set.empty(), InvalidConfig("--set", "changes a key of a training configuration (.yaml)"));
    request.config.model = o.model;
    request.config.dtype = o.gpu == "cpu" ? DType::f32 : DType::bf16;
    request.config.sequence_len = kDefaultSequence;
    if (o.model.ends_with(".json")) {
      request.model = LanguageConfig::from_json(read_file(o.model), o.model);
      request.model.dtype = request.config.dtype;
      request.model.validate();
    } else {
      request.model = planned_architecture(request.config);
    }
    request.tokens_per_step = kDefaultTokens;
  }
  if (o.sequence) request.config.sequence_len = *o.sequence;
  if (o.tokens) request.tokens_per_step = *o.tokens;
  request.batch = o.batch;
}

// This machine's: matmuls are measured, and copies of memory are told.
PlannedDevice these_processors(const PlanOptions& o) {
  INGOT_CHECK(o.bandwidth.has_value(),
              InvalidConfig("--bandwidth", "is needed with --gpu cpu: GB/s that memory gives all threads"));
  PlannedDevice device{.name = "cpu", .host = true};
  device.f32 = device.half = o.flops ? *o.flops * 1e12 : measure_matmul_flops();
  device.memory = static_cast<double>(backend(kCpu).memory_info().free);
  device.bandwidth = *o.bandwidth * 1e9;
  device.link = device.host_link = device.bandwidth / 4;  // a message is copied in, and out
  return device;
}

PlannedDevice planned_device(const PlanOptions& o) {
  INGOT_CHECK(
      o.hardware.empty() || o.gpu == "h100",
      InvalidConfig("--hardware", "describes the GPU; leave out --gpu (the file's `like` names one)"));
  PlannedDevice device = !o.hardware.empty() ? read_planned_device(o.hardware)
                         : o.gpu == kAllGpus ? PlannedDevice{}
                         : o.gpu == "cpu"    ? these_processors(o)
                                             : known_gpu(o.gpu);
  if (!o.memory.empty()) device.memory = static_cast<double>(parse_bytes(o.memory, "--memory"));
  if (device.host) return device;
  if (o.flops) device.half = device.f32 = *o.flops * 1e12;
  if (o.bandwidth) device.bandwidth = *o.bandwidth * 1e9;
  return device;
}

RunPlanRequest plan_request(const PlanOptions& o) {
  INGOT_CHECK(o.gpus >= 1 && o.gpus <= kMostPlanned,
              InvalidConfig("--gpus", fmt::format("is {}, expected 1 to {}", o.gpus, kMostPlanned)));
  INGOT_CHECK(
      o.nodes >= 1 && o.nodes <= o.gpus,
      InvalidConfig("--nodes", fmt::format("is {}, expected 1 to --gpus, which is {}", o.nodes, o.gpus)));
  for (const auto& [key, value] : {std::pair("--batch", o.batch), std::pair("--sequence-len", o.sequence),
                                   std::pair("--tokens", o.tokens)})
    INGOT_CHECK(!value || *value >= 1, InvalidConfig(key, fmt::format("must be at least 1, got {}", *value)));
  for (const auto& [key, value] : {std::pair("--flops", o.flops), std::pair("--bandwidth", o.bandwidth)})
    INGOT_CHECK(!value || *value > 0, InvalidConfig(key, fmt::format("must be above 0, got {}", *value)));
  RunPlanRequest request;
  read_run(o, request);
  request.cluster = {.device = planned_device(o),
                     .ranks = static_cast<int>(o.gpus),
                     .nodes = static_cast<int>(o.nodes),
                     .network = o.link.empty() ? 0 : parse_link_rate(o.link, "--link"),
                     .direct = o.direct};
  return request;
}

Json json_of(const PlannedRun& run) {
  const StepTime& time = run.time;
  Json memory;
  for (const auto& [what, bytes] : run.memory.parts()) memory[what] = bytes;
  return {{"zero_stage", run.choice.zero_stage},
          {"recompute", name(run.choice.recompute)},
          {"offload", name(run.choice.offload)},
          {"batch", run.choice.batch},
          {"accumulation", run.choice.accumulation},
          {"fits", run.fits},
          {"tokens_per_second", run.tokens_per_second},
          {"mfu", run.mfu},
          {"bound", time.bound()},
          {"flops", time.hardware_flops},
          {"memory", memory},
          {"memory_needed", run.memory.needed()},
          {"bytes",
           {{"inside_node_per_rank", time.inside},
            {"between_nodes_per_node", time.outside},
            {"host_per_rank", time.host_bytes}}},
          {"seconds",
           {{"step", time.seconds()},
            {"matmuls", time.matmuls},
            {"memory", time.moves},
            {"launches", time.launches},
            {"communication_exposed", time.exposed},
            {"communication_hidden", time.hidden}}}};
}

void print_plan_json(const PlannedRun& best, const std::optional<PlannedRun>& configured,
                     const std::vector<PlannedRun>& runs, const std::vector<PlannedScale>& scaling) {
  Json others = Json::array(), curve = Json::array();
  for (const PlannedRun& run : runs) others.push_back(json_of(run));
  for (const PlannedScale& point : scaling)
    curve.push_back({{"gpus", point.ranks},
                     {"tokens_per_second", point.run.tokens_per_second},
                     {"efficiency", point.efficiency},
                     {"mfu", point.run.mfu},
                     {"bound", point.run.time.bound()}});
  Json json{{"best", json_of(best)}};
  if (configured) json["configured"] = json_of(*configured);
  json.update(Json{{"combinations", others}, {"scaling", curve}});
  fmt::print("{}\n", printable_json(dump_json(json, 2)));
}

void print_best(const Report& page, const PlannedRun& best, const PlannedCluster& on) {
  const StepTime& t = best.time;
  fmt::print("{}\n{}\n\n", printable(page.title), printable(page.subtitle));
  for (const ReportFigure& figure : page.figures)
    fmt::print("  {:<16} {:>10}  {}\n", figure.label, figure.value, figure.note);
  const double all = t.seconds();
  fmt::print(
      "  {:<16} {:>10}  matmuls {:.0f} %, memory {:.0f} %, launches {:.0f} %, waiting for links {:.0f} %\n",
      "time", "", 100 * t.matmuls / all, 100 * t.moves / all, 100 * t.launches / all, 100 * t.exposed / all);
  if (on.ranks > 1) {
    fmt::print("  {:<16} {:>10}  a rank, in its node", "sent in a step",
               human_bytes(static_cast<std::uint64_t>(t.inside)));
    if (on.nodes > 1)
      fmt::print("; {} a node, to others", human_bytes(static_cast<std::uint64_t>(t.outside)));
    const double travel = t.hidden + t.exposed;
    fmt::print("; {:.0f} % hidden\n", travel > 0 ? 100 * t.hidden / travel : 100);
  }
  fmt::print("\n");
}

// What the configuration itself asks for, beside what would be best.
ReportFigure figure_of(const PlannedRun& configured) {
  return {"as configured", human_bytes(configured.memory.needed()),
          fmt::format(
              "{}: {}", configured.choice.text(),
              configured.fits ? human_count(configured.tokens_per_second) + " tokens/s" : "does not fit")};
}

int plan_all_gpus(const PlanOptions& o, const RunPlanRequest& request) {
  for (const auto& [key, given] :
       {std::pair("--output", !o.output.empty()), std::pair("--memory", !o.memory.empty()),
        std::pair("--flops", o.flops.has_value()), std::pair("--bandwidth", o.bandwidth.has_value())})
    INGOT_CHECK(!given, InvalidConfig(key, "is for one kind of GPU; name it with --gpu"));
  const std::vector<PlannedKind> kinds = plan_kinds(request);
  if (!o.json) {
    print_text_table(kinds_table(kinds));
    return 0;
  }
  Json list = Json::array();
  for (const PlannedKind& kind : kinds) {
    Json one = json_of(kind.run);
    one["gpu"] = kind.device.name;
    one["gpu_memory"] = kind.device.memory;
    list.push_back(std::move(one));
  }
  fmt::print("{}\n", printable_json(dump_json(Json{{"gpus", list}}, 2)));
  return 0;
}

int plan_run(const PlanOptions& o) {
  if (!o.output.empty()) check_ending("--output", o.output, {".html", ".htm"});
  const RunPlanRequest request = plan_request(o);
  if (o.gpu == kAllGpus) return plan_all_gpus(o, request);
  const std::vector<PlannedRun> runs = plan_runs(request);
  const PlannedRun& best = best_run(runs, request.cluster);
  const std::vector<PlannedScale> scaling =
      request.cluster.device.host ? std::vector<PlannedScale>{} : plan_scaling(request);
  Report page = plan_page(request, runs, scaling);
  std::optional<PlannedRun> configured;
  if (is_training_file(o.model)) configured = configured_run(request);
  if (configured) page.figures.push_back(figure_of(*configured));
  if (!o.output.empty()) write_report(o.output, page);
  if (o.json) {
    print_plan_json(best, configured, runs, scaling);
    return 0;
  }
  print_best(page, best, request.cluster);
  for (const ReportTable& table : page.tables) print_text_table(table);
  if (!o.output.empty()) fmt::print("{}\n", printable(o.output));
  return 0;
}

}  // namespace

void add_plan(Command& root) {
  auto o = std::make_shared<PlanOptions>();
  Command command = root.subcommand("plan", "Tell how fast a model would train on GPUs that are elsewhere");
  command
      .option("model", o->model,
              "Training configuration (.yaml), or a model to train whole: directory, GGUF, config.json")
      .required();
  std::vector<std::string> names{"cpu", kAllGpus};
  for (const PlannedDevice& gpu : known_gpus()) names.push_back(gpu.name);
  command.option("--gpu", o->gpu, "Kind of GPU; cpu: this machine's processors; all: each that is known")
      .suggests(names);
  command.option("--gpus", o->gpus, "Number of GPUs: processes of mpirun, which have one each")
      .placeholder("N");
  command.option("--nodes", o->nodes, "Machines that they are in").placeholder("N");
  command.option("--link", o->link, "What each node sends and receives, its ranks together: 400Gb/s, 50GB/s")
      .placeholder("RATE");
  command
      .option("--tokens", o->tokens,
              "Tokens of an optimizer step, of all GPUs; default: the configuration's, or 524288")
      .placeholder("N");
  command.option("--batch", o->batch, "Sequences of a micro-batch; default: the best power of two")
      .placeholder("N");
  command.option("--sequence-len", o->sequence, "Tokens of a sequence; default: the configuration's, or 1024")
      .placeholder("N");
  command.option("--set", o->set, "Change a key: --set optimizer=adamw_8bit").placeholder("KEY=VALUE");
  command.option("--hardware", o->hardware, "Describe another GPU by a YAML file: like, half, bandwidth, ...")
      .placeholder("FILE");
  command.option("--flops", o->flops, "TFLOP/s of matmuls, in place of the GPU's").placeholder("N");
  command.option("--bandwidth", o->bandwidth, "GB/s of its memory, in place of the GPU's").placeholder("N");
  command.option("--memory", o->memory, "Its memory, in place of the GPU's: 80GB").placeholder("SIZE");
  command.flag("--direct", o->direct,
               "Plan with gradients from GPU to GPU (NCCL); else over the host's memory");
  command.option("-o,--output", o->output, "Page with the curves from 1 to 1024 GPUs, .html")
      .placeholder("FILE");
  command.flag("--json", o->json, "Print JSON: bytes, seconds, tokens/s of every combination");
  command.example("ingot plan train.yaml --gpus 64 --nodes 8 --link 400Gb/s --gpu h100 -o plan.html",
                  "64 GPUs in 8 machines, and a page with the curves");
  command.example("ingot plan model --gpus 4 --gpu rtx4090", "a whole model on four GPUs");
  command.example("ingot plan train.yaml --gpus 8 --gpu all",
                  "on which GPUs it fits, and how fast it is there");
  command.run([o] { return plan_run(*o); });
}

}  // namespace ingot::cli
