// Attributes, items, methods, operators and global functions of the template language.
#include <algorithm>
#include <bit>
#include <cmath>
#include <ctime>
#include <utility>

#include <fmt/format.h>

#include "ingot/base/utf8.h"
#include "ingot/text/jinja_arguments.h"
#include "ingot/text/jinja_eval.h"
#include "ingot/text/jinja_strings.h"
#include "ingot/text/unicode.h"

namespace ingot::text::jinja {

namespace {

Value dict_method(const Value& self, const std::string& name, const Arguments& a, Budget& budget) {
  budget.spend_items(self.dict().entries.size());
  if (name == "get") {
    const Value* key = a.find(0, "key");
    INGOT_CHECK(key != nullptr, TemplateError(0, "get needs a key"));
    const Value* found = self.dict().find_key(*key, budget);
    const Value* fallback = a.find(1, "default");
    return found != nullptr ? *found : fallback != nullptr ? *fallback : Value();
  }
  budget.spend_strings(2 * self.dict().entries.size());
  List out;
  for (const auto& [key, value] : self.dict().entries) {
    if (name == "keys") out.push_back(key);
    if (name == "values") out.push_back(value);
    if (name == "items") out.push_back(Value::tuple({key, value}));
  }
  return out;
}

Value index_in(const Value& list, const Arguments& a, Budget& budget) {
  INGOT_CHECK(!a.positional.empty(), TemplateError(0, "index and count need an argument"));
  for (std::size_t i = 0; i < list.list().size(); ++i)
    if (equal(list.list()[i], a.positional[0], budget)) return static_cast<std::int64_t>(i);
  throw TemplateError(0, "the item is not in the list");
}

[[noreturn]] void fail_on_undefined(const Value& value) {
  throw TemplateError(0, fmt::format("\"{}\" is undefined", value.undefined_name()));
}

/// A position counted from either end, or -1.
std::int64_t position(std::int64_t index, std::int64_t size) {
  if (index < 0) index += size;
  return index >= 0 && index < size ? index : -1;
}

Value integer_operation(const std::string& op, std::int64_t a, std::int64_t b) {
  std::int64_t out = 0;
  const auto overflow = [](bool happened) {
    INGOT_CHECK(!happened, TemplateError(0, "an integer is too large"));
  };
  if (op == "+") overflow(__builtin_add_overflow(a, b, &out));
  if (op == "-") overflow(__builtin_sub_overflow(a, b, &out));
  if (op == "*") overflow(__builtin_mul_overflow(a, b, &out));
  if (op == "//" || op == "%") {
    INGOT_CHECK(b != 0, TemplateError(0, "division by zero"));
    if (op == "%" && b == -1) return std::int64_t{0};  // also of the smallest integer
    overflow(b == -1 && a == INT64_MIN);
    out = op == "//" ? a / b : a % b;  // Python rounds down
    if (op == "//" && a % b != 0 && (a < 0) != (b < 0)) --out;
    if (op == "%" && out != 0 && (out < 0) != (b < 0)) out += b;
  }
  if (op == "**") {
    if (b < 0) return std::pow(static_cast<double>(a), static_cast<double>(b));
    out = 1;
    INGOT_CHECK(b < 64 || (a >= -1 && a <= 1), TemplateError(0, "an integer is too large"));
    for (std::int64_t i = 0; i < (a >= -1 && a <= 1 ? b % 2 + (b > 0 ? 2 : 0) : b); ++i)
      overflow(__builtin_mul_overflow(out, a, &out));
  }
  return out;
}

// Python's: a / b may round up to a whole number that b does not fit into as often (1.0 // 0.1 is 9).
double rounded_quotient(double a, double b, double rest) {
  const bool below = rest != 0 && (rest < 0) != (b < 0);
  const double quotient = (a - rest) / b - (below ? 1 : 0);  // whole but for rounding
  if (quotient == 0) return std::copysign(0.0, a / b);
  const double whole = std::floor(quotient);
  return quotient - whole > 0.5 ? whole + 1 : whole;
}

Value real_operation(const std::string& op, double a, double b) {
  if (op == "+") return a + b;
  if (op == "-") return a - b;
  if (op == "*") return a * b;
  if (op == "**") return std::pow(a, b);
  INGOT_CHECK(b != 0, TemplateError(0, "division by zero"));
  if (op == "/") return a / b;
  const double rest = std::fmod(a, b);
  if (op == "//") return rounded_quotient(a, b, rest);
  if (rest == 0) return std::copysign(0.0, b);
  return (rest < 0) != (b < 0) ? rest + b : rest;
}

/// A tuple where `value` is one.
Value like(const Value& value, List items) {
  return value.is_tuple() ? Value::tuple(std::move(items)) : Value(std::move(items));
}

Value repeat(const Value& value, std::int64_t times, Budget& budget) {
  const std::int64_t size = value.is_string()
                                ? static_cast<std::int64_t>(value.string().size())
                                : static_cast<std::int64_t>(value.list().size() * Budget::kItemBytes);
  times = std::max<std::int64_t>(times, 0);
  if (size > 0 && times > static_cast<std::int64_t>(budget.output_bytes) / size)
    budget.check_size(budget.output_bytes + 1);
  budget.spend(static_cast<std::size_t>(size * times));
  if (size == 0) times = 0;
  if (value.is_list()) {
    List out;
    for (std::int64_t i = 0; i < times; ++i) out.insert(out.end(), value.list().begin(), value.list().end());
    return like(value, std::move(out));
  }
  std::string out;
  for (std::int64_t i = 0; i < times; ++i) out += value.string();
  return out;
}

std::string format_time(const ChatInput& input, const std::string& format, Budget& budget) {
  const std::time_t now = input.now >= 0 ? static_cast<std::time_t>(input.now) : std::time(nullptr);
  std::tm fields{};
  if (input.now >= 0)
    gmtime_r(&now, &fields);
  else
    localtime_r(&now, &fields);
  INGOT_CHECK(format.size() < 1000, TemplateError(0, "the format of a time is too long"));
  std::string out(16384, '\0');
  budget.spend(out.size());
  out.resize(std::strftime(out.data(), out.size(), format.c_str(), &fields));
  return out;
}

Value range(const Arguments& a, Budget& budget) {
  const std::size_t n = a.positional.size();
  INGOT_CHECK(n >= 1 && n <= 3, TemplateError(0, "range takes one to three integers"));
  const std::int64_t start = n > 1 ? integer_argument(a, 0, "start", 0) : 0;
  const std::int64_t stop = integer_argument(a, n > 1 ? 1 : 0, "stop", 0);
  const std::int64_t step = integer_argument(a, 2, "step", 1);
  INGOT_CHECK(step != 0, TemplateError(0, "the step of a range is zero"));
  List out;
  for (std::int64_t i = start; step > 0 ? i < stop : i > stop;) {
    INGOT_CHECK(out.size() < 100'000, TemplateError(0, "a range is longer than 100000"));
    budget.spend_items(1);
    out.push_back(i);
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  return out;
}

std::shared_ptr<Dict> dict_of(const Arguments& a, Budget& budget) {
  auto out = std::make_shared<Dict>();
  const auto set = [&](const Value& key, const Value& value) {
    budget.spend_items(out->entries.size());
    budget.spend_strings(1);
    out->set(key, value, budget);
  };
  for (const Value& given : a.positional) {
    if (given.is_dict()) {
      for (const auto& [key, value] : given.dict().entries) set(key, value);
      continue;
    }
    for (const Value& pair : to_list(given, budget)) {
      const List items = to_list(pair, budget);
      INGOT_CHECK(items.size() == 2, TemplateError(0, "expected a mapping or pairs of key and value"));
      set(items[0], items[1]);
    }
  }
  for (const auto& [key, value] : a.named) set(key, value);
  return out;
}

/// cycler(a, b): `next()` gives one after another, `current` the one that comes next.
Value cycler(const Arguments& a, Budget& budget) {
  constexpr std::size_t kCyclerBytes = 1024;  // of its functions
  INGOT_CHECK(!a.positional.empty(), TemplateError(0, "cycler needs at least one item"));
  auto state = std::make_shared<Dict>();
  state->kind = Dict::Kind::object;
  budget.spend(kCyclerBytes);
  budget.spend_items(2 * a.positional.size());
  budget.namespaces.push_back(state);  // its functions hold it
  const auto step = [state, items = a.positional, at = std::size_t{0}](bool forward) mutable -> Value {
    const Value now = items[at];
    at = forward ? (at + 1) % items.size() : 0;
    state->entries.front().second = items[at];
    return now;
  };
  const auto shared_step = std::make_shared<std::function<Value(bool)>>(step);
  state->entries.emplace_back("current", a.positional[0]);
  state->entries.emplace_back(
      "next", Function{"next", [shared_step](const Arguments&) { return (*shared_step)(true); }});
  state->entries.emplace_back("reset", Function{"reset", [shared_step](const Arguments&) -> Value {
                                                  (*shared_step)(false);
                                                  return {};
                                                }});
  return state;
}

/// joiner(sep): nothing at its first call, then the separator.
Value joiner(const Arguments& a, Budget& budget) {
  const Value* given = a.find(0, "sep");
  const Value separator = given != nullptr ? to_text(*given, budget) : ", ";  // shared, whatever its size
  return Function{"joiner", [separator, used = std::make_shared<bool>(false)](const Arguments&) -> Value {
                    return std::exchange(*used, true) ? separator : Value("");
                  }};
}

}  // namespace

Value bound_method(const Value& value, const std::string& name, Budget& budget) {
  Budget* const shared = &budget;
  if (value.is_string()) return string_method(value, name, budget);
  if (value.is_dict() && value.dict().kind == Dict::Kind::plain &&
      (name == "items" || name == "keys" || name == "values" || name == "get"))
    return Function{
        name, [value, name, shared](const Arguments& a) { return dict_method(value, name, a, *shared); }};
  if ((value.is_list() || value.is_dict()) && name == "copy")
    return Function{name, [value, shared](const Arguments&) -> Value {
                      if (value.is_list()) {
                        shared->spend_items(value.list().size());
                        return List(value.list());
                      }
                      shared->spend_strings(2 * value.dict().entries.size());
                      return std::make_shared<Dict>(Dict{.entries = value.dict().entries});
                    }};
  if (value.is_list() && name == "index")
    return Function{name, [value, shared](const Arguments& a) { return index_in(value, a, *shared); }};
  if (value.is_list() && name == "count")
    return Function{name, [value, shared](const Arguments& a) -> Value {
                      INGOT_CHECK(!a.positional.empty(),
                                  TemplateError(0, "index and count need an argument"));
                      return static_cast<std::int64_t>(
                          std::count_if(value.list().begin(), value.list().end(),
                                        [&](const Value& v) { return equal(v, a.positional[0], *shared); }));
                    }};
  if (value.is_float() && name == "is_integer")
    return Function{name, [v = value.number()](const Arguments&) -> Value { return std::floor(v) == v; }};
  if (value.is_integer() && name == "bit_length")
    return Function{name, [v = value.integer()](const Arguments&) -> Value {
                      return static_cast<std::int64_t>(std::bit_width(
                          v < 0 ? 0 - static_cast<std::uint64_t>(v) : static_cast<std::uint64_t>(v)));
                    }};
  return Undefined{name};
}

Value get_attribute(const Value& value, const std::string& name, Budget& budget) {
  if (value.is_undefined()) fail_on_undefined(value);
  budget.spend_strings(1);
  if (Value method = bound_method(value, name, budget); !method.is_undefined()) return method;
  if (value.is_dict()) budget.spend(value.dict().entries.size());
  if (value.is_dict())
    if (const Value* found = value.dict().find(name, budget); found != nullptr) return *found;
  return Undefined{name};
}

Value get_item(const Value& value, const Value& key, Budget& budget) {
  if (value.is_undefined()) fail_on_undefined(value);
  if (value.is_dict() && key.is_key()) {
    budget.spend(value.dict().entries.size());
    const Value* found = value.dict().find_key(key, budget);
    return found != nullptr ? *found : Value(Undefined{to_text(key, budget)});
  }
  if ((key.is_integer() || key.is_bool()) && value.is_list()) {
    const std::int64_t at = position(key.integer(), static_cast<std::int64_t>(value.list().size()));
    return at >= 0 ? value.list()[static_cast<std::size_t>(at)] : Value(Undefined{"an item out of range"});
  }
  if (key.is_integer() && value.is_string()) {
    const std::string& text = value.string();
    budget.spend(text.size());
    const std::int64_t at = position(key.integer(), static_cast<std::int64_t>(count_characters(text)));
    if (at < 0) return Undefined{"a character out of range"};
    const std::size_t begin = character_offset(text, static_cast<std::size_t>(at));
    return text.substr(begin, utf8_length(text[begin]));
  }
  return Undefined{to_text(key, budget)};
}

Value get_slice(const Value& value, const Value& start, const Value& stop, const Value& step,
                Budget& budget) {
  if (value.is_undefined()) fail_on_undefined(value);
  INGOT_CHECK(value.is_list() || value.is_string(),
              TemplateError(0, fmt::format("{} has no slices", value.type_name())));
  const std::size_t count = value.is_string() ? count_characters(value.string()) : value.list().size();
  budget.spend_items(count);
  const std::u32string characters = value.is_string() ? to_utf32(value.string()) : std::u32string();
  const auto size = static_cast<std::int64_t>(value.is_string() ? characters.size() : count);
  const auto number = [](const Value& v, std::int64_t fallback) {
    if (v.is_none()) return fallback;
    INGOT_CHECK(v.is_integer(), TemplateError(0, "the bounds of a slice must be integers"));
    return v.integer();
  };
  const std::int64_t by = number(step, 1);
  INGOT_CHECK(by != 0, TemplateError(0, "the step of a slice is zero"));
  const auto clamp = [&](std::int64_t i) {
    if (i < 0) i += size;
    return by > 0 ? std::clamp<std::int64_t>(i, 0, size) : std::clamp<std::int64_t>(i, -1, size - 1);
  };
  const std::int64_t from = start.is_none() ? (by > 0 ? 0 : size - 1) : clamp(number(start, 0));
  const std::int64_t to = stop.is_none() ? (by > 0 ? size : -1) : clamp(number(stop, 0));
  std::u32string text;
  List list;
  for (std::int64_t i = from; by > 0 ? i < to : i > to;) {
    if (value.is_string())
      text += characters[static_cast<std::size_t>(i)];
    else
      list.push_back(value.list()[static_cast<std::size_t>(i)]);
    if (__builtin_add_overflow(i, by, &i)) break;
  }
  return value.is_string() ? Value(to_utf8(text)) : like(value, std::move(list));
}

List to_list(const Value& value, Budget& budget) {
  if (value.is_list()) {
    budget.spend_items(value.list().size());
    return value.list();
  }
  List out;
  if (value.is_dict() && value.dict().kind == Dict::Kind::plain) {
    budget.spend_strings(value.dict().entries.size());
    for (const auto& entry : value.dict().entries) out.push_back(entry.first);
    return out;
  }
  if (value.is_string()) {
    const std::string& text = value.string();
    budget.spend_strings(text.size());
    for (std::size_t i = 0; i < text.size(); i += utf8_length(text[i]))
      out.push_back(text.substr(i, utf8_length(text[i])));
    return out;
  }
  INGOT_CHECK(value.is_undefined(),
              TemplateError(0, fmt::format("{} cannot be gone through", value.type_name())));
  return out;
}

Value binary_operation(const std::string& op, const Value& a, const Value& b, Budget& budget) {
  if (op == "~") {
    std::string text = to_text(a, budget) + to_text(b, budget);
    budget.check_size(text.size());
    return text;
  }
  if (a.is_undefined()) fail_on_undefined(a);
  if (b.is_undefined()) fail_on_undefined(b);
  if (a.is_number() && b.is_number())
    return op == "/" || a.is_float() || b.is_float() ? real_operation(op, a.number(), b.number())
                                                     : integer_operation(op, a.integer(), b.integer());
  if (op == "+" && a.is_string() && b.is_string()) return binary_operation("~", a, b, budget);
  if (op == "+" && a.is_list() && b.is_list() && a.is_tuple() == b.is_tuple()) {
    budget.spend_items(a.list().size() + b.list().size());
    List out = a.list();
    out.insert(out.end(), b.list().begin(), b.list().end());
    return like(a, std::move(out));
  }
  if (op == "*" && (a.is_string() || a.is_list()) && b.is_integer()) return repeat(a, b.integer(), budget);
  if (op == "*" && (b.is_string() || b.is_list()) && a.is_integer()) return repeat(b, a.integer(), budget);
  if (op == "%" && a.is_string()) return format_text(a.string(), b, budget);
  throw TemplateError(0, fmt::format("{} {} {} has no meaning", a.type_name(), op, b.type_name()));
}

bool contains(const Value& container, const Value& item, Budget& budget) {
  if (container.is_string()) {
    INGOT_CHECK(item.is_string(),
                TemplateError(0, fmt::format("{} cannot be in a string", item.type_name())));
    budget.spend(container.string().size());
    return find_text(container.string(), item.string()) != std::string::npos;
  }
  if (container.is_dict()) budget.spend(container.dict().entries.size());
  if (container.is_dict()) return container.dict().find_key(item, budget) != nullptr;
  if (container.is_undefined()) return false;
  INGOT_CHECK(container.is_list(), TemplateError(0, fmt::format("{} holds no items", container.type_name())));
  return std::any_of(container.list().begin(), container.list().end(),
                     [&](const Value& v) { return equal(v, item, budget); });
}

std::vector<std::pair<std::string, Value>> globals(const ChatInput& input, Budget& budget) {
  std::vector<std::pair<std::string, Value>> out;
  const auto function = [&](const char* name, std::function<Value(const Arguments&)> call) {
    out.emplace_back(name, Function{name, std::move(call)});
  };
  constexpr std::size_t kMostOfReason = 2000;  // bytes of what a template says when it refuses
  Budget* const shared = &budget;
  const ChatInput* const given = &input;
  function("raise_exception", [shared](const Arguments& a) -> Value {
    const std::string reason = a.positional.empty() ? "" : to_text(a.positional[0], *shared);
    throw TemplateError(0, "the template refuses: " + reason.substr(0, kMostOfReason));
  });
  function("namespace", [shared](const Arguments& a) -> Value {
    auto dict = dict_of(a, *shared);
    dict->kind = Dict::Kind::name_space;
    shared->namespaces.push_back(dict);
    return dict;
  });
  function("dict", [shared](const Arguments& a) -> Value { return dict_of(a, *shared); });
  function("cycler", [shared](const Arguments& a) { return cycler(a, *shared); });
  function("joiner", [shared](const Arguments& a) { return joiner(a, *shared); });
  function("lipsum", [](const Arguments&) -> Value {
    throw TemplateError(0, "lipsum() writes random text, which no chat template needs: it is not supported");
  });
  function("range", [shared](const Arguments& a) { return range(a, *shared); });
  function("strftime_now", [given, shared](const Arguments& a) -> Value {
    return format_time(*given, text_argument(a, 0, "format"), *shared);
  });
  out.emplace_back("messages", parse_json(input.messages, "messages"));
  out.emplace_back("tools", parse_json(input.tools, "tools"));
  out.emplace_back("documents", parse_json(input.documents, "documents"));
  out.emplace_back("add_generation_prompt", input.add_generation_prompt);
  const auto token = [&](const char* name, const std::string& text) {
    if (!text.empty()) out.emplace_back(name, text);
  };
  token("bos_token", input.bos_token);
  token("eos_token", input.eos_token);
  token("unk_token", input.unk_token);
  token("pad_token", input.pad_token);
  const Value variables = parse_json(input.variables, "variables");
  INGOT_CHECK(variables.is_dict(), TemplateError(0, "the further variables of a template must be an object"));
  for (const auto& [key, value] : variables.dict().entries) {
    const std::string& name = key.string();  // as all keys of JSON are
    std::erase_if(out, [&](const auto& entry) { return entry.first == name; });
    out.emplace_back(name, value);
  }
  return out;
}

}  // namespace ingot::text::jinja
