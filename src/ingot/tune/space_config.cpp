// A search space as it stands in a study's YAML.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "ingot/base/config.h"
#include "ingot/base/error.h"
#include "ingot/base/suggest.h"
#include "ingot/tune/space.h"

namespace ingot::tune {
namespace {

// `when: {optimizer: sgd}` or `when: {optimizer: [sgd, adam]}`.
void read_condition(const ConfigReader& section, const SearchSpace& above, Parameter& p) {
  if (!section.has("when")) return;
  const ConfigReader when = section.section("when");
  const std::vector<std::string> names = when.keys();
  if (names.size() != 1)
    section.fail("when", "expected one parameter and its choices, as in `{optimizer: sgd}`");
  std::vector<std::string> known;
  for (const Parameter& parent : above.parameters) {
    if (parent.kind == ParameterKind::categorical) known.push_back(parent.name);
    if (parent.name == names[0] && parent.kind == ParameterKind::categorical) {
      p.parent = static_cast<int>(&parent - above.parameters.data());
    }
  }
  if (p.parent < 0) {
    when.fail(names[0], fmt::format("is not a parameter with choices that stands above {}{}", p.name,
                                    did_you_mean(names[0], known)));
  }
  const std::vector<std::string>& choices = above.parameters[static_cast<std::size_t>(p.parent)].choices;
  for (const FreeValue& value : when.require_free(names[0])) {
    const std::string& choice = value.text;
    const auto found = std::ranges::find(choices, choice);
    if (found == choices.end()) {
      when.fail(names[0], fmt::format("'{}' is not one of its choices {}{}", choice, fmt::join(choices, ", "),
                                      did_you_mean(choice, choices)));
    }
    p.parent_choices.push_back(found - choices.begin());
  }
}

void refuse_unknown_keys(const ConfigReader& section, const std::string& type) {
  const std::vector<std::string> of_choices{"type", "when", "choices"};
  const std::vector<std::string> of_numbers{"type", "when", "low", "high", "log", "step", "points"};
  std::vector<std::string> any = of_numbers;
  any.emplace_back("choices");
  const std::vector<std::string>& known = type == "choice" ? of_choices : of_numbers;
  for (const std::string& key : section.keys()) {
    if (std::ranges::find(known, key) != known.end()) continue;
    section.fail(key, fmt::format("a parameter of type {} has no such key{}", type, did_you_mean(key, any)));
  }
}

Parameter read_parameter(const ConfigReader& section, const std::string& name, const SearchSpace& above) {
  Parameter p;
  p.name = name;
  const bool choices = section.has("choices");
  const std::string type = section.choice("type", choices ? "choice" : "float", {"float", "int", "choice"});
  refuse_unknown_keys(section, type);
  if (type == "choice") {
    p.kind = ParameterKind::categorical;
    for (const FreeValue& value : section.require_free("choices")) {
      p.choices.push_back(value.text);
      p.choices_json.push_back(value.json);
    }
  } else {
    p.kind = type == "int" ? ParameterKind::integer : ParameterKind::real;
    p.low = section.require<double>("low");
    p.high = section.require<double>("high");
    p.log = section.get("log", false);
    p.step = section.get("step", 0.0, at_least(0));
    p.points = section.get("points", std::int64_t{0}, at_least(2));
  }
  read_condition(section, above, p);
  return p;
}

}  // namespace

SearchSpace read_search_space(const ConfigReader& section) {
  SearchSpace space;
  for (const std::string& name : section.keys()) {
    space.parameters.push_back(read_parameter(section.section(name), name, space));
    space.parameters.back().where = section.where(name);
  }
  return space;
}

}  // namespace ingot::tune
