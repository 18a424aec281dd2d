#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/json.h"
#include "ingot/base/units.h"
#include "ingot/graph/assets.h"
#include "ingot/graph/graph.h"

namespace ingot {
namespace {

using Json = nlohmann::ordered_json;

bool is_numbered(const GraphModule& module) {
  return !module.name.empty() &&
         std::ranges::all_of(module.name, [](char c) { return c >= '0' && c <= '9'; });
}

// What a module computes and holds, without its own name: equal for layers that do the same.
std::string signature(const GraphModule& module) {
  std::string text = "{";
  for (const GraphTensor& parameter : module.parameters)
    text += fmt::format("{}:{};", parameter.name, parameter.type());
  for (const GraphOp& op : module.ops) {
    text += fmt::format("{}{}(", op.name, op.backward ? "'" : "");
    for (const GraphKernel& kernel : op.kernels) {
      text += kernel.name + ":";
      for (const GraphTensor& operand : kernel.operands) text += operand.type() + ",";
    }
    text += ")";
  }
  for (const GraphModule& inside : module.modules) text += inside.name + signature(inside);
  return text + "}";
}

Json to_json(const GraphTensor& tensor) {
  return {{"name", tensor.name}, {"shape", tensor.shape}, {"dtype", name(tensor.dtype)}};
}

Json to_json(const GraphOp& op) {
  Json kernels = Json::array();
  for (const GraphKernel& kernel : op.kernels) {
    Json operands = Json::array();
    for (const GraphTensor& operand : kernel.operands) operands.push_back(to_json(operand));
    kernels.push_back({{"kernel", kernel.name},
                       {"implementation", kernel.implementation},
                       {"operands", operands},
                       {"flops", kernel.flops},
                       {"bytes", kernel.bytes}});
  }
  return {{"op", op.name},         {"backward", op.backward}, {"number", op.number}, {"inputs", op.inputs},
          {"result", op.result()}, {"flops", op.flops()},     {"bytes", op.bytes()}, {"kernels", kernels}};
}

Json to_json(const GraphModule& module) {
  Json parameters = Json::array(), ops = Json::array(), modules = Json::array();
  for (const GraphTensor& parameter : module.parameters) parameters.push_back(to_json(parameter));
  for (const GraphOp& op : module.ops) ops.push_back(to_json(op));
  for (const GraphRun& run : folded(module.modules)) {
    modules.push_back(to_json(module.modules[run.first]));
    if (run.count == 1) continue;
    modules.back()["repeats"] = run.count;
    modules.back()["last"] = module.modules[run.first + run.count - 1].name;
  }
  return {{"name", module.name},
          {"module", module.full_name},
          {"parameter_count", module.parameter_count()},
          {"flops_forward", module.flops(false)},
          {"flops_backward", module.flops(true)},
          {"bytes", module.bytes()},
          {"parameters", parameters},
          {"ops", ops},
          {"modules", modules}};
}

Json to_json(const ModelGraph& graph) {
  return {{"title", graph.title},
          {"input", graph.input},
          {"backward", graph.backward},
          {"activation_bytes", graph.activation_bytes},
          {"model", to_json(graph.model)}};
}

// As a string of DOT.
std::string dot_string(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "\"";
}

class DotWriter {
 public:
  std::string write(const ModelGraph& graph) {
    text_ = fmt::format(
        "digraph model {{\n  label={};\n  labelloc=t;\n  rankdir=TB;\n  fontname=\"sans-serif\";\n"
        "  node [shape=box, style=\"rounded,filled\", fillcolor=white, fontname=\"sans-serif\"];\n",
        dot_string(graph.title + ", " + graph.input));
    add(graph.model, 1);
    for (const auto& [from, to] : edges()) text_ += fmt::format("  op{} -> op{};\n", from, to);
    return text_ + "}\n";
  }

 private:
  void add(const GraphModule& module, std::size_t depth) {
    const std::string indent(2 * depth, ' ');
    for (const GraphOp& op : module.ops) {
      shown_[op.number] = op.number;
      ops_.push_back(&op);
      text_ += fmt::format("{}op{} [label={}{}];\n", indent, op.number, label_of(op),
                           op.backward ? ", fillcolor=\"#f3e8d8\"" : "");
    }
    for (const GraphRun& run : folded(module.modules)) {
      const GraphModule& first = module.modules[run.first];
      if (!first.computes()) continue;
      const std::string title = run.count == 1
                                    ? first.name
                                    : fmt::format("{} to {} ({} times)", first.name,
                                                  module.modules[run.first + run.count - 1].name, run.count);
      text_ += fmt::format("{}subgraph cluster_{} {{\n{}  label={};\n", indent, clusters_++, indent,
                           dot_string(title));
      add(first, depth + 1);
      text_ += indent + "}\n";
      for (std::size_t i = 1; i < run.count; ++i) stands_for(first, module.modules[run.first + i]);
    }
  }
  static std::string label_of(const GraphOp& op) {
    std::string text = dot_string(op.name + (op.backward ? " backward" : ""));
    text.pop_back();
    if (const std::string result = op.result(); !result.empty()) text += "\\n" + result;
    if (op.flops() > 0) text += "\\n" + human_count(op.flops()) + " FLOP";
    return text + "\"";
  }
  // Modules that do the same have the same ops.
  void stands_for(const GraphModule& first, const GraphModule& other) {
    for (std::size_t i = 0; i < first.ops.size(); ++i) {
      shown_[other.ops[i].number] = first.ops[i].number;
      ops_.push_back(&other.ops[i]);
    }
    for (std::size_t i = 0; i < first.modules.size(); ++i) stands_for(first.modules[i], other.modules[i]);
  }
  std::set<std::pair<std::size_t, std::size_t>> edges() const {
    std::set<std::pair<std::size_t, std::size_t>> edges;
    for (const GraphOp* op : ops_) {
      for (const std::size_t input : op->inputs) {
        const auto from = shown_.find(input);
        if (from != shown_.end()) edges.emplace(from->second, shown_.at(op->number));
      }
    }
    return edges;
  }

  std::string text_;
  std::map<std::size_t, std::size_t> shown_;  // by an op's number, that of the op drawn for it
  std::vector<const GraphOp*> ops_;
  int clusters_ = 0;
};

// In a script no "<" may begin what HTML would read.
std::string in_script(std::string json) {
  std::string safe;
  for (const char c : json) {
    if (c == '<') {
      safe += "\\u003c";
    } else {
      safe += c;
    }
  }
  return safe;
}

std::string replaced(std::string page, std::string_view mark, std::string_view by) {
  page.replace(page.find(mark), mark.size(), by);
  return page;
}

}  // namespace

std::vector<GraphRun> folded(const std::vector<GraphModule>& modules) {
  std::vector<GraphRun> runs;
  std::string last;
  for (std::size_t i = 0; i < modules.size(); ++i) {
    std::string now = is_numbered(modules[i]) ? signature(modules[i]) : std::string();
    if (!runs.empty() && !now.empty() && now == last) {
      ++runs.back().count;
    } else {
      runs.push_back({.first = i, .count = 1});
    }
    last = std::move(now);
  }
  return runs;
}

std::string graph_json(const ModelGraph& graph) { return dump_json(to_json(graph), 1) + "\n"; }

std::string graph_dot(const ModelGraph& graph) { return DotWriter().write(graph); }

std::string graph_page(const ModelGraph& graph) {
  std::string page = replaced(std::string(graph_assets::page()), "/*{{style}}*/", graph_assets::style());
  page = replaced(std::move(page), "{\"data\":0}", in_script(dump_json(to_json(graph))));
  return replaced(std::move(page), "/*{{script}}*/", graph_assets::script());
}

}  // namespace ingot
