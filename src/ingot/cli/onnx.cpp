#include <algorithm>
#include <filesystem>
#include <map>
#include <new>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/json.h"
#include "ingot/base/printable.h"
#include "ingot/base/units.h"
#include "ingot/cli/arguments.h"
#include "ingot/cli/commands.h"
#include "ingot/cli/onnx_values.h"
#include "ingot/cli/run_limits.h"
#include "ingot/core/device_config.h"
#include "ingot/hub/resolve.h"
#include "ingot/onnx/graph.h"
#include "ingot/onnx/graph_trial.h"
#include "ingot/onnx/node_tests.h"
#include "ingot/ops/cast.h"
#include "ingot/weights/npy.h"

namespace ingot::cli {
namespace {

using Json = nlohmann::ordered_json;

/// What a stranger's graph may take.
struct Limits {
  std::string memory;
  double seconds = 600;
  std::int64_t iterations = onnx::Graph::kMaxIterations;
};

struct RunOptions {
  std::string model, output = ".", device = "auto";
  std::vector<std::string> inputs;
  Limits limits;
  bool json = false;
};

struct CheckOptions {
  std::string path;
  std::vector<std::string> inputs;
  Limits limits;
  double try_seconds = 20;
  bool all = false, json = false;
};

std::string describe(const onnx::ValueInfo& value) {
  if (!value.is_tensor) return fmt::format("{:<24} {}", printable(value.name), printable(value.stored_as));
  std::string text = fmt::format("{:<24} {} [", printable(value.name), value.stored_as);
  for (std::size_t i = 0; i < value.shape.size(); ++i) {
    const std::string open = value.axes[i].empty() ? "?" : printable(value.axes[i]);
    text += (i == 0 ? "" : ", ") + (value.shape[i] == -1 ? open : std::to_string(value.shape[i]));
  }
  return text + "]";
}

/// Names for the files of outputs, all different: names of values may hold anything, names of files may not.
std::vector<std::string> file_names(const std::vector<onnx::ValueInfo>& outputs) {
  constexpr std::size_t kLongest = 200;
  std::set<std::string> taken;
  std::vector<std::string> names;
  for (const onnx::ValueInfo& output : outputs) {
    std::string name = output.name.substr(0, kLongest);
    std::ranges::replace_if(
        name, [](unsigned char c) { return c < 0x20 || c == 0x7F || c == '/' || c == ':' || c == '\\'; },
        '_');
    if (name.empty() || name.front() == '.') name.insert(0, "_");
    const std::string base = name;
    for (int n = 2; !taken.insert(name).second; ++n) name = fmt::format("{}_{}", base, n);
    names.push_back(name);
  }
  return names;
}

/// Without a limit of its own a run may take this much: what its files hold many times over.
std::uint64_t allowed_memory(const Limits& limits, std::uint64_t held) {
  // With the program itself a small graph stays below 1 GiB.
  constexpr std::uint64_t kLeast = std::uint64_t{896} << 20, kTimes = 16;
  return limits.memory.empty() ? kLeast + kTimes * held : parse_bytes(limits.memory, "--max-memory");
}

/// What `work` gives of the bytes that it may take, within limits that end the process or fail what asks for
/// too much. `held`: bytes that the model and its inputs take.
template <class Work>
auto run_limited(const std::string& model, const Limits& limits, std::uint64_t held, bool json,
                 const Work& work) {
  const TimeLimit limit(limits.seconds,
                        fmt::format("{}: took longer than {}; --max-seconds allows more", printable(model),
                                    human_duration(limits.seconds)),
                        json);
  const std::uint64_t memory = allowed_memory(limits, held);
  limit_memory(memory);
  const auto refuse = [&](const char* what) {
    return Error(
        fmt::format("{}: needs more memory than the {} that it may have; --max-memory allows more ({})",
                    printable(model), human_bytes(memory), what));
  };
  try {
    return work(memory);
  } catch (const OutOfMemory& error) {
    throw refuse(error.what());
  } catch (const std::bad_alloc&) {
    throw refuse("between its nodes");
  }
}

std::uint64_t taken_since(std::uint64_t before) { return std::max(process_memory(), before) - before; }

/// Values by the names of inputs, from assignments name=file.npy.
std::map<std::string, onnx::Value> read_inputs(const std::vector<std::string>& assignments) {
  std::map<std::string, onnx::Value> inputs;
  for (const std::string& assignment : assignments) {
    const std::size_t equals = assignment.find('=');
    INGOT_CHECK(equals != assignment.npos,
                InvalidConfig("--input", "'" + assignment + "' is not a name=file.npy"));
    inputs[assignment.substr(0, equals)] = read_value(assignment.substr(equals + 1));
  }
  return inputs;
}

int run_model(const RunOptions& o) {
  const std::uint64_t before = process_memory();
  const onnx::Graph graph = onnx::Graph::open(hub::resolve_model(o.model), choose_device(o.device));
  const std::map<std::string, onnx::Value> inputs = read_inputs(o.inputs);
  onnx::Texts texts = graph.texts();
  const onnx::Values results =
      run_limited(o.model, o.limits, taken_since(before), o.json, [&](std::uint64_t memory) {
        onnx::Values made = graph.run_values(inputs, texts, o.limits.iterations);
        check_file_sizes(graph.outputs(), made, texts, memory);
        return made;
      });
  make_directories(o.output);
  Json list = Json::array();
  const auto keep = [&](const std::string& name, const std::string& file, const onnx::Value& value) {
    const std::string path = o.output + "/" + file + ".npy";
    const std::string what = write_value(path, value, texts);
    list.push_back({{"name", name}, {"path", path}, {"shape", value.tensor.shape().to_vector()}});
    if (!o.json) fmt::print("{}: {}\n", printable(path), what);
  };
  const std::vector<std::string> files = file_names(graph.outputs());
  for (std::size_t i = 0; i < results.size(); ++i) {
    const std::string& name = graph.outputs()[i].name;
    if (results[i].tensor.defined()) keep(name, files[i], results[i]);
    if (!results[i].is_sequence()) continue;
    for (std::size_t k = 0; k < results[i].items->size(); ++k)
      keep(name, fmt::format("{}.{}", files[i], k), (*results[i].items)[k]);
  }
  if (o.json) fmt::print("{}\n", printable_json(dump_json(list, 2)));
  return 0;
}

/// Operators of a graph and of the functions and graphs in it, by how often they are there.
void count_operators(const onnx::Graph& graph, std::map<std::string, int>& counts) {
  for (const onnx::Node& node : graph.nodes()) {
    if (node.function != nullptr) {
      count_operators(*node.function, counts);
      continue;
    }
    ++counts[printable(node.full_name())];
    for (const auto& [name, attribute] : node.attributes) {
      if (attribute.graph != nullptr) count_operators(*attribute.graph, counts);
    }
  }
}

void print_check(const onnx::Graph& graph, const std::map<std::string, int>& counts,
                 const std::set<std::string>& missing, const onnx::TrialResult& trial) {
  fmt::print("{} by {}, operator set {}, {} nodes\n", printable(graph.path()),
             graph.producer().empty() ? "?" : printable(graph.producer()), graph.opset(),
             graph.nodes().size());
  for (const onnx::ValueInfo& input : graph.inputs()) fmt::print("  in   {}\n", describe(input));
  for (const onnx::ValueInfo& output : graph.outputs()) fmt::print("  out  {}\n", describe(output));
  for (const auto& [op, count] : counts)
    fmt::print("  {:>5} {}{}\n", count, op, missing.contains(op) ? "  (not supported)" : "");
  for (const std::string& problem : trial.problems) fmt::print("a run refuses: {}\n", printable(problem));
  constexpr std::size_t kShown = 5;
  for (std::size_t i = 0; i < std::min(kShown, trial.untried.size()); ++i)
    fmt::print("not tried: {}\n", printable(trial.untried[i]));
  if (trial.untried.size() > kShown) fmt::print("not tried: {} more\n", trial.untried.size() - kShown);
  if (!trial.untried.empty()) fmt::print("--input name=file.npy tries these, too: with real inputs\n");
  fmt::print("{}\n", trial.problems.empty() ? "every operator is supported"
                     : missing.empty() ? fmt::format("{} things that a run refuses", trial.problems.size())
                                       : fmt::format("not supported: {}",
                                                     printable(fmt::format("{}", fmt::join(missing, ", ")))));
}

/// What the graph holds, and whether a run would take it: it is tried on the inputs that are given, and
/// made-up ones.
int check_model(const CheckOptions& o) {
  const std::uint64_t before = process_memory();
  const onnx::Graph graph = onnx::Graph::open(hub::resolve_model(o.path));
  std::map<std::string, int> counts;
  count_operators(graph, counts);
  const std::set<std::string> missing = graph.unsupported();
  const std::map<std::string, onnx::Value> inputs = read_inputs(o.inputs);
  const onnx::TrialResult trial =
      run_limited(o.path, o.limits, taken_since(before), o.json, [&](std::uint64_t memory) {
        onnx::TrialResult result = onnx::try_graph(graph, o.try_seconds, o.limits.iterations, inputs);
        try {
          check_file_sizes(graph.outputs(), result.outputs, result.texts, memory);
        } catch (const Error& error) {
          result.problems.emplace_back(error.what());
        }
        return result;
      });
  if (o.json) {
    fmt::print("{}\n", printable_json(dump_json(Json{{"path", graph.path()},
                                                     {"opset", graph.opset()},
                                                     {"operators", counts},
                                                     {"unsupported", missing},
                                                     {"problems", trial.problems},
                                                     {"untried", trial.untried}},
                                                2)));
  } else {
    print_check(graph, counts, missing, trial);
  }
  return trial.problems.empty() ? 0 : 1;
}

/// ONNX' backend tests below a directory: passed per operator set, and what the others need.
int check_tests(const CheckOptions& o) {
  struct Count {
    int passed = 0, unsupported = 0, wrong = 0;
  };
  std::map<int, Count> by_opset;
  std::map<std::string, int> needed;
  Count all;
  Json list = Json::array();
  for (const onnx::NodeTest& test : onnx::run_node_tests(o.path)) {
    for (Count* count : {&all, &by_opset[test.opset]}) {
      ++(test.end == onnx::TestEnd::passed        ? count->passed
         : test.end == onnx::TestEnd::unsupported ? count->unsupported
                                                  : count->wrong);
    }
    for (const std::string& op : test.operators) ++needed[op];
    const char* end = test.end == onnx::TestEnd::passed        ? "passed"
                      : test.end == onnx::TestEnd::unsupported ? "unsupported"
                                                               : "wrong";
    list.push_back({{"name", test.name}, {"opset", test.opset}, {"end", end}, {"detail", test.detail}});
    if (!o.json && (test.end == onnx::TestEnd::wrong || (o.all && test.end != onnx::TestEnd::passed))) {
      fmt::print("{:<12} {}: {}\n", end, printable(test.name), printable(test.detail));
    }
  }
  const int exit_code = all.wrong == 0 ? 0 : 1;
  if (o.json) {
    fmt::print("{}\n", printable_json(dump_json(Json{{"passed", all.passed},
                                                     {"unsupported", all.unsupported},
                                                     {"wrong", all.wrong},
                                                     {"tests", list}},
                                                2)));
    return exit_code;
  }
  for (const auto& [opset, count] : by_opset) {
    const int total = count.passed + count.unsupported + count.wrong;
    if (opset > 0) fmt::print("opset {:>2}: {:>3} of {:>3} passed\n", opset, count.passed, total);
  }
  fmt::print("{} passed, {} need what Ingot lacks, {} wrong\n", all.passed, all.unsupported, all.wrong);
  std::vector<std::string> names;
  names.reserve(needed.size());
  for (const auto& [op, count] : needed) names.push_back(fmt::format("{} ({})", op, count));
  fmt::print("operators lacking, and tests with them: {}\n",
             printable(fmt::format("{}", fmt::join(names, ", "))));
  return exit_code;
}

int check(const CheckOptions& o) {
  return std::filesystem::is_directory(o.path) ? check_tests(o) : check_model(o);
}

void add_limits(Command& command, Limits& limits) {
  command.option(
      "--max-memory", limits.memory,
      "Refuse to take more memory (default: 896 MiB and 16 times what the model and its inputs take)");
  command.option("--max-seconds", limits.seconds, "Stop with an error after as many seconds; 0: never");
  command.option("--max-iterations", limits.iterations,
                 "Iterations that all loops of the graph may take together");
}

}  // namespace

void add_onnx(Command& root) {
  Command command =
      root.subcommand("onnx", "Run graphs that other programs exported, and tell what they need");
  command.example("ingot onnx check model.onnx", "whether a graph can run here");
  auto r = std::make_shared<RunOptions>();
  Command run = command.subcommand("run", "Compute a graph's outputs from NumPy files");
  run.option("model", r->model, "An .onnx file, here or elsewhere (see ingot pull)").required();
  run.option("--input", r->inputs, "An input, as name=file.npy (may be repeated)");
  run.option("-o,--output", r->output, "Directory for the outputs, one .npy file each");
  add_device_option(run, r->device);
  add_limits(run, r->limits);
  run.flag("--json", r->json, "Print paths and shapes as JSON");
  run.example("ingot onnx run resnet.onnx --input x=image.npy -o out", "then numpy.load('out/logits.npy')");
  run.run([r] { return run_model(*r); });
  auto c = std::make_shared<CheckOptions>();
  Command checks =
      command.subcommand("check", "List a graph's inputs, outputs and operators; or run ONNX' own tests");
  checks.option("path", c->path, "An .onnx file, or a directory of ONNX backend tests").required();
  checks.option("--input", c->inputs,
                "An input to try the graph on, as name=file.npy (may be repeated; all others are made up)");
  checks.option("--try-seconds", c->try_seconds,
                "A graph is run on made-up inputs to find what a run refuses; for as long at most");
  add_limits(checks, c->limits);
  checks.flag("--all", c->all, "Tests: also name those that need what Ingot lacks");
  checks.flag("--json", c->json, "Print JSON");
  checks.example("ingot onnx check model.onnx",
                 "what it takes and gives, and whether every operator is there");
  checks.example("ingot onnx check /usr/share/libonnx-testdata/data/node", "how many of ONNX' tests pass");
  checks.run([c] { return check(*c); });
}

}  // namespace ingot::cli
