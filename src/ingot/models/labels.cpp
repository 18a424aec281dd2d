#include "ingot/models/labels.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "ingot/base/error.h"

namespace ingot {
namespace {

constexpr std::int64_t kMaxLabels = 1 << 20;

LabelsOf labels_of(const ConfigFile& file) {
  std::vector<std::string> architectures;
  file.read_list("architectures", architectures);
  for (const std::string& name : architectures) {
    if (name.ends_with("ForSequenceClassification")) return LabelsOf::texts;
    if (name.ends_with("ForTokenClassification")) return LabelsOf::tokens;
  }
  return LabelsOf::nothing;
}

std::vector<std::string> names_in(const ConfigFile& file) {
  std::vector<std::string> names;
  const auto listed = file.object("id2label");
  while (listed.has_value() && listed->has(std::to_string(names.size()).c_str())) {
    std::string label;
    listed->read(std::to_string(names.size()).c_str(), label);
    names.push_back(std::move(label));
  }
  return names;
}

constexpr std::pair<LabelProblem, std::string_view> kProblems[] = {
    {LabelProblem::single_label, "single_label_classification"},
    {LabelProblem::multi_label, "multi_label_classification"},
    {LabelProblem::regression, "regression"}};

std::optional<LabelProblem> problem_in(const ConfigFile& file) {
  std::string problem;
  file.read("problem_type", problem);
  if (problem.empty()) return std::nullopt;
  return parse_label_problem(problem, file.path(), "problem_type");
}

// Where sentence-transformers notes it: its versions from 4 on, and those before.
std::string activation_in(const ConfigFile& file) {
  std::string activation;
  if (const auto own = file.object("sentence_transformers")) own->read("activation_fn", activation);
  file.read("sbert_ce_default_activation_function", activation);
  return activation.substr(activation.rfind('.') + 1);  // "torch.nn.modules.activation.Sigmoid"
}

}  // namespace

std::string_view name(LabelProblem problem) {
  return std::ranges::find(kProblems, problem, &std::pair<LabelProblem, std::string_view>::first)->second;
}

LabelProblem parse_label_problem(std::string_view text, const std::string& path, const std::string& key) {
  for (const auto& [value, name] : kProblems)
    if (text == name) return value;
  throw FormatError(path, -1, key,
                    fmt::format("is '{}'; expected regression, single_label_classification "
                                "or multi_label_classification",
                                text));
}

Labels Labels::read(const ConfigFile& file) {
  Labels labels{.of = labels_of(file)};
  if (labels.of == LabelsOf::nothing) return labels;
  labels.names = names_in(file);
  std::int64_t count = labels.names.empty() ? 2 : static_cast<std::int64_t>(labels.names.size());
  file.read("num_labels", count);
  INGOT_CHECK(
      count > 0 && count <= kMaxLabels,
      FormatError(file.path(), -1, "num_labels", fmt::format("is {}; expected 1 to {}", count, kMaxLabels)));
  labels.resize(count);
  labels.problem = problem_in(file);
  labels.activation = activation_in(file);
  return labels;
}

void Labels::resize(std::int64_t count) {
  names.resize(std::min(names.size(), static_cast<std::size_t>(count)));
  while (static_cast<std::int64_t>(names.size()) < count)
    names.push_back(fmt::format("LABEL_{}", names.size()));
}

LabelProblem Labels::kind() const {
  return problem.value_or(names.size() == 1 ? LabelProblem::multi_label : LabelProblem::single_label);
}

}  // namespace ingot
