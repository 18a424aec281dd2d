#include "ingot/graph/graph.h"

#include <optional>

#include <fmt/format.h>

#include "ingot/base/config.h"
#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/printable.h"
#include "ingot/base/units.h"
#include "ingot/cli/arguments.h"
#include "ingot/cli/commands.h"
#include "ingot/hub/resolve.h"
#include "ingot/train/language/language_trainer.h"

namespace ingot::cli {
namespace {

struct CommandOptions {
  std::string model, output;
  GraphOptions graph;
  bool json = false;
};

ModelGraph graph_of(const CommandOptions& o) {
  if (o.model != "-" && !o.model.ends_with(".yaml") && !o.model.ends_with(".yml"))
    return graph_of_model(hub::resolve_model(o.model), o.graph);
  Config file = Config::load(o.model);
  return graph_of_model(planned_architecture(read_train_config(file)), o.graph);
}

std::string written(const ModelGraph& graph, const std::string& path) {
  const std::string ending = ending_of(path);
  if (ending == ".html") return graph_page(graph);
  return ending == ".dot" ? graph_dot(graph) : printable_json(graph_json(graph));
}

void print_summary(const ModelGraph& graph) {
  fmt::print("{}, {}\n  parameters      {}\n  FLOPs forward   {}\n", printable(graph.title),
             printable(graph.input), human_count(static_cast<double>(graph.model.parameter_count())),
             human_count(graph.model.flops(false)));
  if (graph.backward) fmt::print("  FLOPs backward  {}\n", human_count(graph.model.flops(true)));
  fmt::print("  activations     {} at most\n", human_bytes(graph.activation_bytes));
}

int run(const CommandOptions& o) {
  INGOT_CHECK(o.json || !o.output.empty(),
              InvalidConfig("graph", "needs a file to write (-o graph.html, .dot or .json), or --json"));
  check_ending("--output", o.output, {".html", ".dot", ".json"});
  const ModelGraph graph = graph_of(o);
  if (!o.output.empty()) write_file_atomically(o.output, written(graph, o.output));
  if (is_standard_output(o.output)) return 0;
  if (o.json) {
    fmt::print("{}", printable_json(graph_json(graph)));
  } else {
    print_summary(graph);
  }
  return 0;
}

}  // namespace

void add_graph(Command& root) {
  auto o = std::make_shared<CommandOptions>();
  Command command = root.subcommand(
      "graph", "Draw what a model computes: modules and ops with shapes, parameters, FLOPs, memory");
  command
      .option("model", o->model,
              "A model directory, GGUF file or name (see ingot pull), or a training configuration (YAML, - "
              "is standard "
              "input)")
      .required();
  command.option("-o,--output", o->output,
                 "File to write: a page (.html), Graphviz (.dot) or .json; - prints JSON");
  command.option("--batch", o->graph.batch, "Sequences, windows or observations of the input");
  command.option("--sequence", o->graph.sequence, "Tokens of each sequence");
  command.flag("--backward", o->graph.backward, "The backward pass, too");
  command.flag("--json", o->json, "Print the graph as JSON");
  command.example("ingot graph Qwen/Qwen3-0.6B -o graph.html", "a page with every module, layers folded");
  command.example("ingot graph train.yaml --backward -o graph.dot && dot -Tsvg graph.dot -o graph.svg",
                  "a drawing of the training step of a model that is not there yet");
  command.run([o] { return run(*o); });
}

}  // namespace ingot::cli
