// Numbers and strings of a schema, and whether two schemas exclude each other.
#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/grammar/char_set.h"
#include "ingot/grammar/pattern.h"
#include "ingot/grammar/schema_compiler.h"
#include "ingot/grammar/schema_shape.h"

namespace ingot::grammar {
namespace {

constexpr std::uint32_t kDigits = 12;          // behind the point: few enough for doubles to tell apart
constexpr double kMostListed = 4096;           // multiples written out
constexpr std::uint32_t kMostStep = 200;       // of multiples that an automaton counts
constexpr std::uint32_t kCountedDigits = 15;   // of these multiples
constexpr std::int64_t kMostLength = 100'000;  // of strings

struct Bounds {
  ExprId expr;  // of all of them
  double least = -INFINITY, most = INFINITY;
  bool any = false;
};

}  // namespace

// The expression of a number, or of an integer. `also`: productions beside it.
ExprId SchemaCompiler::number(const Parts& parts, bool integer, std::vector<Production>& also) {
  Expressions& to = rules_.expressions();
  const ExprId plain = plain_numbers(to, integer ? 0 : kDigits);
  Bounds bounds{.expr = plain};
  const auto restrict = [&](const Json& schema, const char* keyword, bool below, bool strict) {
    const Json* value = schema_member(schema, keyword);
    if (value == nullptr || !value->is_number()) return;
    const double bound = value->get<double>();
    double& known = below ? bounds.least : bounds.most;
    known = below ? std::max(known, bound) : std::min(known, bound);
    const auto decimal = Decimal::of(*value);
    if (!decimal) {  // beyond all numbers that are written
      if (below ? bound < -1 : bound > 1) return;
      if (std::abs(bound) > 1) bounds.expr = Expressions::kNothing;
      if (std::abs(bound) > 1) return;
      refuse(schema, keyword, "has more digits than can be enforced");
    }
    bounds.any = true;
    bounds.expr =
        to.both(bounds.expr, below ? at_least(to, *decimal, strict) : at_most(to, *decimal, strict));
  };
  const Json* step = nullptr;
  const Json* step_of = nullptr;
  for (const Part& part : parts) {
    const Json& schema = *part.schema;
    const auto strict = [&](const char* keyword) {  // draft 4 has a flag
      const Json* value = schema_member(schema, keyword);
      return value != nullptr && value->is_boolean() && value->get<bool>();
    };
    restrict(schema, "minimum", true, strict("exclusiveMinimum"));
    restrict(schema, "maximum", false, strict("exclusiveMaximum"));
    restrict(schema, "exclusiveMinimum", true, true);
    restrict(schema, "exclusiveMaximum", false, true);
    if (const Json* found = schema_member(schema, "multipleOf")) {
      if (step != nullptr && *step != *found)
        refuse(schema, "multipleOf", "stands beside another one, which cannot be enforced");
      step = found;
      step_of = &schema;
    }
  }
  if (step != nullptr) {
    if (std::isfinite(bounds.least) && std::isfinite(bounds.most) && step->get<double>() >= 1 &&
        std::floor(step->get<double>()) == step->get<double>()) {
      const double first = std::ceil(bounds.least / step->get<double>());
      const double last = std::floor(bounds.most / step->get<double>());
      if (last - first < kMostListed) {
        std::vector<std::string> listed;
        for (double k = first; k <= last; ++k)
          listed.push_back(fmt::format("{:.0f}", k * step->get<double>() + 0.0));
        return listed.empty() ? Expressions::kNothing : to.both(to.one_of(std::move(listed)), bounds.expr);
      }
    }
    return multiples(parts, *step_of, bounds.expr, integer, bounds.any, also);
  }
  if (bounds.any || bounds.expr != plain) return bounds.expr;
  return integer ? text_.integer() : text_.number();
}

ExprId SchemaCompiler::multiples(const Parts&, const Json& schema, ExprId numbers, bool integer, bool bounded,
                                 std::vector<Production>& also) {
  Expressions& to = rules_.expressions();
  const double step = schema_member(schema, "multipleOf")->get<double>();
  if (step <= 0) refuse(schema, "multipleOf", "must be above 0");
  const ExprId digits = to.star(to.bytes(ByteSet::range('0', '9'))), minus = to.optional(to.literal("-"));
  const auto with_ending = [&](ExprId ending) {
    return to.both(numbers, to.either(to.literal("0"), to.concat(std::vector{minus, digits, ending})));
  };
  if (step >= 1 && std::floor(step) == step) {
    if (step == 1) return to.both(numbers, plain_numbers(to, 0));
    const std::string text = fmt::format("{:.0f}", step);
    if (text.find_first_not_of('0', 1) == text.npos && text.front() == '1')
      return with_ending(to.literal(std::string_view(text).substr(1)));
    if (bounded || step > kMostStep)
      refuse(schema, "multipleOf",
             fmt::format("can be enforced up to {} without bounds, or between bounds with at "
                         "most {} multiples",
                         kMostStep, kMostListed));
    also.push_back({rules_.terminal(minus), multiples_of(static_cast<std::uint32_t>(step))});
    return Expressions::kNothing;
  }
  // 0.25: the fractions .0, .25, .5 and .75.
  const double count = std::round(1 / step);
  const auto decimal = Decimal::of(*schema_member(schema, "multipleOf"));
  if (!decimal || std::abs(count * step - 1) > 1e-12 || decimal->fraction.size() > 6)
    refuse(schema, "multipleOf", "can be enforced where it is a whole number, or 1 is a multiple of it");
  if (integer) return numbers;
  const auto places = static_cast<std::uint32_t>(decimal->fraction.size());
  if (decimal->fraction.find_first_not_of('0') == places - 1 && decimal->fraction.back() == '1')
    return to.both(numbers, plain_numbers(to, places));
  if (count > kMostStep) refuse(schema, "multipleOf", "is too small to be enforced");
  std::vector<std::string> fractions;
  for (double k = 0; k < count; ++k) fractions.push_back(fmt::format("{:.{}f}", k * step, places).substr(2));
  std::vector<ExprId> endings{Expressions::kEmpty};
  for (std::string& fraction : fractions) {
    while (fraction.size() > 1 && fraction.ends_with('0')) fraction.pop_back();
    endings.push_back(to.concat(to.literal("." + fraction), to.star(to.literal("0"))));
  }
  return with_ending(to.either(std::move(endings)));
}

// Digits whose number is a multiple of the step: a rule for each remainder of the digits so far, and each
// number of digits that may follow.
Symbol SchemaCompiler::multiples_of(std::uint32_t step) {
  if (const auto found = multiples_.find(step); found != multiples_.end()) return found->second;
  const auto digit = [&](std::uint32_t d) {
    return rules_.literal(std::string(1, static_cast<char>('0' + d)));
  };
  std::vector<std::uint32_t> then;  // rules behind one digit more
  for (std::uint32_t left = 0; left < kCountedDigits; ++left) {
    std::vector<std::uint32_t> rules;
    for (std::uint32_t r = 0; r < step; ++r) {
      rules.push_back(rules_.add("multipleOf"));
      if (r == 0) rules_.produce(rules.back(), {});
      for (std::uint32_t d = 0; d < 10 && left > 0; ++d)
        rules_.produce(rules.back(), {digit(d), Symbol::rule(then[(r * 10 + d) % step])});
    }
    then = std::move(rules);
  }
  const std::uint32_t start = rules_.add("multipleOf");
  rules_.produce(start, {digit(0)});
  for (std::uint32_t d = 1; d < 10; ++d) rules_.produce(start, {digit(d), Symbol::rule(then[d % step])});
  return multiples_.emplace(step, Symbol::rule(start)).first->second;
}

// What stands between the quotes. `as_name`: of a property, whose spelling has to be the usual one, as names
// are compared by it.
ExprId SchemaCompiler::string_content(const Parts& parts, bool as_name) {
  Expressions& to = rules_.expressions();
  std::int64_t least = 0, most = -1;
  std::vector<ExprId> all;
  for (const Part& part : parts) {
    const Json& schema = *part.schema;
    if (const Json* value = schema_member(schema, "minLength"))
      least = std::max(least, value->get<std::int64_t>());
    if (const Json* value = schema_member(schema, "maxLength"))
      most = most < 0 ? value->get<std::int64_t>() : std::min(most, value->get<std::int64_t>());
    if (const Json* value = schema_member(schema, "pattern")) {
      const std::string where = "json_schema: 'pattern' at " + pointer_to(root_, *value);
      all.push_back(compile_pattern(to, value->get_ref<const std::string&>(),
                                    {.json_string = text_.has_escapes(), .search = true}, where));
    }
    if (const Json* value = schema_member(schema, "format")) {
      const auto expr = string_format(to, value->get_ref<const std::string&>(), text_.has_escapes());
      if (!expr)
        refuse(schema, "format",
               fmt::format("is '{}', which cannot be enforced: leave it out", value->get<std::string>()));
      all.push_back(*expr);
    }
    if (least > kMostLength) refuse(schema, "minLength", fmt::format("is above {}", kMostLength));
  }
  if (most >= 0 && most < least) return Expressions::kNothing;
  const auto count = [](std::int64_t n) { return static_cast<std::uint32_t>(n); };
  if (most > kMostLength * 1000) most = -1;  // longer than any context
  const ExprId one = as_name || !all.empty() ? text_.plain_char() : text_.any_char();
  const bool limited = least > 0 || most >= 0;
  if (limited || all.empty())
    all.push_back(to.repeat(one, count(least), most < 0 ? Expressions::kMany : count(most)));
  return to.both(std::move(all));
}

// The expression of these types, where it is one.
std::optional<ExprId> SchemaCompiler::scalar(const Parts& parts, unsigned types) {
  std::vector<ExprId> choices;
  std::vector<Production> others;
  if ((types & kNull) != 0) choices.push_back(rules_.literal("null").id);
  if ((types & kBoolean) != 0) choices.push_back(rules_.expressions().one_of({"true", "false"}));
  if ((types & (kInteger | kNumber)) != 0) choices.push_back(number(parts, (types & kNumber) == 0, others));
  if ((types & kString) != 0) choices.push_back(string_content(parts, true));
  if (!others.empty() || (types & (kArray | kObject)) != 0) return std::nullopt;
  return rules_.expressions().either(std::move(choices));
}

// Whether certainly no value satisfies both.
bool SchemaCompiler::disjoint(Parts a, Parts b, int depth) {
  if (!expand(a) || !expand(b)) return true;
  if (depth > 6) return false;
  for (Parts* side : {&a, &b}) {
    for (std::size_t i = 0; i < side->size(); ++i) {
      for (const auto& either : {std::pair{"anyOf", kAnyOf}, std::pair{"oneOf", kOneOf}}) {
        const char* keyword = either.first;
        const auto done = either.second;
        const Json* choices = schema_member(*(*side)[i].schema, keyword);
        if (choices == nullptr || ((*side)[i].done & done) != 0) continue;
        return std::ranges::all_of(*choices, [&](const Json& each) {
          Parts with = *side;
          with[i].done |= done;
          return !add(with, each) || disjoint(with, side == &a ? b : a, depth + 1);
        });
      }
    }
  }
  const auto values_a = listed_values(a), values_b = listed_values(b);
  const auto refused_by = [&](const std::vector<const Json*>& values, const Parts& other) {
    return std::ranges::all_of(values, [&](const Json* value) {
      return std::ranges::any_of(other,
                                 [&](const Part& part) { return !check_.accepts(*part.schema, *value); });
    });
  };
  if (values_a) return refused_by(*values_a, b);
  if (values_b) return refused_by(*values_b, a);
  const unsigned both = types(a) & types(b);
  if (both == 0) return true;
  if ((both & kArray) != 0) return false;
  const unsigned scalars = both & ~static_cast<unsigned>(kObject);
  if (scalars != 0) {
    Parts together = a;
    for (const Part& part : b) add(together, *part.schema);
    const auto expr = scalar(together, scalars);
    if (!expr || !rules_.automata().is_nothing(*expr)) return false;
  }
  return (both & kObject) == 0 || disjoint_properties(a, b, depth);
}

// Whether a property that one of them requires tells them apart.
bool SchemaCompiler::disjoint_properties(const Parts& a, const Parts& b, int depth) {
  const auto requires_name = [](const Parts& parts, const std::string& name) {
    return std::ranges::any_of(parts, [&](const Part& part) {
      const Json* required = schema_member(*part.schema, "required");
      return required != nullptr && required->is_array() &&
             std::ranges::find(*required, Json(name)) != required->end();
    });
  };
  std::vector<std::string> names;
  for (const Parts* parts : {&a, &b}) {
    for (const Part& part : *parts) {
      const Json* required = schema_member(*part.schema, "required");
      if (required == nullptr || !required->is_array()) continue;
      for (const Json& name : *required) names.push_back(name.get<std::string>());
    }
  }
  return std::ranges::any_of(names, [&](const std::string& name) {
    bool possible_a = true, possible_b = true;
    const Parts of_a = property_parts(a, name, possible_a), of_b = property_parts(b, name, possible_b);
    if (!possible_a || !possible_b) return true;
    return requires_name(a, name) && requires_name(b, name) && disjoint(of_a, of_b, depth + 1);
  });
}

}  // namespace ingot::grammar
