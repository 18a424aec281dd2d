#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ingot/models/config_file.h"

namespace ingot {

/// What a classifier's logits are of.
enum class LabelsOf : std::uint8_t { nothing, texts, tokens };

/// How logits become scores: transformers' problem_type.
enum class LabelProblem : std::uint8_t { single_label, multi_label, regression };

/// transformers' name of it.
std::string_view name(LabelProblem problem);
/// The problem of such a name. FormatError where there is none, with the file and its key.
LabelProblem parse_label_problem(std::string_view text, const std::string& path, const std::string& key);

/// The labels of a classifier, as config.json describes them.
struct Labels {
  LabelsOf of = LabelsOf::nothing;
  std::vector<std::string> names;       ///< by index: id2label
  std::optional<LabelProblem> problem;  ///< none: config.json does not say
  /// torch's name of what a cross-encoder's scores go through, as sentence-transformers wrote it; empty: the
  /// problem's own.
  std::string activation;

  /// Reads architectures, id2label, num_labels, problem_type. Where a file names no labels they are LABEL_0,
  /// LABEL_1 as in transformers.
  static Labels read(const ConfigFile& file);
  /// The problem as transformers' pipeline decides it: one label alone is a yes or no.
  LabelProblem kind() const;
  /// As many names as the classifier has outputs.
  void resize(std::int64_t count);
};

}  // namespace ingot
