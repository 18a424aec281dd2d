#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace ingot {
class ConfigReader;
}

namespace ingot::tune {

enum class ParameterKind : std::uint8_t { real, integer, categorical };

/// One choice. Inside the tuner a value is always a double: itself, or the index of a choice.
struct Parameter {
  std::string name;
  std::string where = {};  ///< it was written, for messages: "study.yaml, line 4"; empty: nowhere
  ParameterKind kind = ParameterKind::real;
  double low = 0, high = 1;  ///< both included; of real and integer parameters
  double step = 0;           ///< distance of the values allowed, counted from low; 0: every one (integers: 1)
  bool log = false;          ///< chosen on a logarithmic scale
  std::vector<std::string> choices;            ///< as people tell them apart: null, "null" (in quotes), 16
  std::vector<std::string> choices_json = {};  ///< the same with their types, as JSON; empty: all are text
  std::int64_t points = 0;  ///< values that a grid takes of a real parameter without a step

  // A conditional parameter exists only where another one has one of these choices.
  int parent = -1;  ///< index in the space of an earlier categorical; -1: always there
  std::vector<std::int64_t> parent_choices;  ///< indices of its choices

  /// 1 for integers, or the step given; 0 for continuous ones.
  double spacing() const { return kind == ParameterKind::integer && step == 0 ? 1 : step; }
  /// The greatest value allowed: high, or the last of low, low + step, ... that is not beyond it.
  double last() const;
  /// Only one value is allowed.
  bool fixed() const { return kind == ParameterKind::categorical ? choices.size() == 1 : last() == low; }
  /// Of numbers: their range on the parameter's scale (logarithms where it is one), with half a step more at
  /// both ends, so that the outermost values get the share of the others.
  std::pair<double, double> range() const;
};

/// The values of one trial, in the order of the space; kAbsent (NaN): the parameter does not exist in this
/// trial.
using Values = std::vector<double>;
inline constexpr double kAbsent = std::numeric_limits<double>::quiet_NaN();

/// What is searched.
struct SearchSpace {
  std::vector<Parameter> parameters;
  /// Trials add the parameters that they ask for (Tuner::choose), and each has those that it asked for.
  bool open = false;

  std::size_t size() const { return parameters.size(); }
  /// Throws InvalidConfig naming "space.<parameter>".
  void validate() const;
  /// Whether parameter `i` exists, given the values of those before it.
  bool exists(std::size_t i, const Values& values) const;
  /// The nearest value that parameter `i` may take.
  double nearest_allowed(std::size_t i, double value) const;
  /// Whether `values` could have come from this space.
  bool contains(const Values& values) const;

  /// A value as people write it: "0.001", "4", "relu". Reals come back bit for bit.
  std::string text(std::size_t i, double value) const;
  /// The same for a program's argument: a choice that is text without quotes.
  std::string word(std::size_t i, double value) const;
  /// The same as YAML that reads back as this value and type.
  std::string yaml(std::size_t i, double value) const;
  /// {"name": value, ...} of the parameters that exist, as JSON; choices keep their types.
  std::string to_json(const Values& values) const;
  Values from_json(const std::string& json) const;

  /// The whole space as JSON, one line per parameter (of an open one, one line): equal spaces give equal
  /// text.
  std::string description() const;
};

/// Where two descriptions differ, for an error: "learning_rate: {...} in the study, {...} now".
std::string difference(const std::string& stored, const std::string& now);

/// Reads the mapping `space` of a study (docs/tuning.md says what may stand there). Its values are checked by
/// SearchSpace::validate, once unknown keys of the file around it were named.
SearchSpace read_search_space(const ConfigReader& section);

}  // namespace ingot::tune
