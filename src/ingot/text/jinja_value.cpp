#include "ingot/text/jinja_value.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/json.h"
#include "ingot/base/parallel.h"
#include "ingot/base/utf8.h"
#include "ingot/text/chat_template.h"
#include "ingot/text/jinja_eval.h"
#include "ingot/text/json_write.h"

namespace ingot::text::jinja {

namespace {

using nlohmann::ordered_json;

constexpr std::size_t kLongKey = 256;  // bytes whose comparison counts

void check_depth(int depth) {
  INGOT_CHECK(depth <= kMaxNesting,
              TemplateError(0, fmt::format("data nests deeper than {} levels", kMaxNesting)));
}

/// repr() of a float: the shortest digits that read back, with a point or an exponent.
std::string float_text(double v) {
  if (std::isnan(v)) return "nan";
  if (std::isinf(v)) return v > 0 ? "inf" : "-inf";
  const double size = std::fabs(v);
  if (size != 0 && (size < 1e-4 || size >= 1e16)) {
    std::string text = fmt::format("{:e}", v);  // only to find the exponent's form
    text = fmt::format("{}", v);
    if (text.find('e') == std::string::npos) text = fmt::format("{:g}", v);
    return text;
  }
  std::string text = fmt::format("{}", v);
  if (text.find('e') != std::string::npos) text = fmt::format("{:f}", v);
  if (text.find('.') == std::string::npos) text += ".0";
  return text;
}

/// The shortest way to write what is neither a string nor holds others.
std::string atom_text(const Value& value) {
  if (value.is_undefined()) return {};
  if (value.is_none()) return "None";
  if (value.is_bool()) return value.truthy() ? "True" : "False";
  if (value.is_integer()) return std::to_string(value.integer());
  if (value.is_float()) return float_text(value.number());
  return fmt::format("<function {}>", value.function().name);
}

// A JSON string; beyond ASCII in \\u escapes where the style asks for that, of two halves beyond U+FFFF.
std::string json_text(const std::string& text, const JsonStyle& style) {
  const std::string plain = json_string(text);
  if (!style.ensure_ascii || is_ascii(plain)) return plain;
  std::string out;
  for (std::size_t at = 0; at < plain.size();) {
    const char32_t c = decode_utf8(plain, at);
    if (c < 0x80) {
      out += static_cast<char>(c);
    } else if (c < 0x10000) {
      out += fmt::format("\\u{:04x}", static_cast<std::uint32_t>(c));
    } else {
      const auto rest = static_cast<std::uint32_t>(c) - 0x10000;
      out += fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + (rest >> 10), 0xDC00 + (rest & 0x3FF));
    }
  }
  return out;
}

/// A text that grows within a budget.
class Writer {
 public:
  explicit Writer(Budget& budget) : budget_(budget) {}

  void put(std::string_view text) {
    budget_.spend(text.size());
    budget_.check_size(out_.size() + text.size());
    out_ += text;
  }
  void repr(const Value& value, int depth) {
    check_depth(depth);
    if (value.is_string()) return quoted(value.string());
    if (value.is_list()) return list(value, depth);
    if (value.is_dict()) return dict(value, depth);
    put(value.is_undefined() ? "Undefined" : atom_text(value));
  }
  void json(const Value& value, const JsonStyle& style, int depth);
  std::string take() { return std::move(out_); }

 private:
  void quoted(const std::string& text);
  void list(const Value& value, int depth) {
    const bool tuple = value.is_tuple();
    put(tuple ? "(" : "[");
    std::string_view separator;
    for (const Value& item : value.list()) {
      put(separator);
      separator = ", ";
      repr(item, depth + 1);
    }
    if (tuple && value.list().size() == 1) put(",");
    put(tuple ? ")" : "]");
  }
  void dict(const Value& value, int depth) {
    put("{");
    std::string_view separator;
    for (const auto& [key, item] : value.dict().entries) {
      put(separator);
      separator = ", ";
      repr(key, depth);
      put(": ");
      repr(item, depth + 1);
    }
    put("}");
  }
  /// `write_item` writes item i; each stands on a line of its own where there is an indent.
  void json_items(std::string_view brackets, std::size_t count, const JsonStyle& style, int depth,
                  FunctionRef<void(std::size_t)> write_item);

  Budget& budget_;
  std::string out_;
};

void Writer::quoted(const std::string& text) {
  const char quote = text.find('\'') != std::string::npos && text.find('"') == std::string::npos ? '"' : '\'';
  budget_.spend(text.size());
  budget_.check_size(out_.size() + 4 * text.size());
  out_ += quote;
  for (const char c : text) {
    if (c == '\\' || c == quote) {
      out_ += '\\';
      out_ += c;
    } else if (c == '\n') {
      out_ += "\\n";
    } else if (c == '\r') {
      out_ += "\\r";
    } else if (c == '\t') {
      out_ += "\\t";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      out_ += fmt::format("\\x{:02x}", static_cast<int>(c));
    } else {
      out_ += c;
    }
  }
  out_ += quote;
}

void Writer::json_items(std::string_view brackets, std::size_t count, const JsonStyle& style, int depth,
                        FunctionRef<void(std::size_t)> write_item) {
  const auto new_line = [&](int levels) {
    if (style.indent < 0) return;
    put("\n" + std::string(static_cast<std::size_t>(style.indent) * static_cast<std::size_t>(levels), ' '));
  };
  put(brackets.substr(0, 1));
  for (std::size_t i = 0; i < count; ++i) {
    if (i > 0) put(!style.item_separator.empty() ? style.item_separator : style.indent < 0 ? ", " : ",");
    new_line(depth + 1);
    write_item(i);
  }
  if (count > 0) new_line(depth);
  put(brackets.substr(1));
}

void Writer::json(const Value& value, const JsonStyle& style, int depth) {
  check_depth(depth);
  if (value.is_string()) {
    put(json_text(value.string(), style));
  } else if (value.is_list()) {
    json_items("[]", value.list().size(), style, depth,
               [&](std::size_t i) { json(value.list()[i], style, depth + 1); });
  } else if (value.is_dict()) {
    const auto& entries = value.dict().entries;
    std::vector<std::size_t> order(entries.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    budget_.spend(order.size() * sizeof(std::size_t));
    if (style.sort_keys)
      std::ranges::sort(order, [&](std::size_t a, std::size_t b) {
        return less(entries[a].first, entries[b].first, budget_);
      });
    json_items("{}", order.size(), style, depth, [&](std::size_t i) {
      const Value& key = entries[order[i]].first;
      if (key.is_string()) {
        put(json_text(key.string(), style));
      } else {
        put("\"");
        json(key, style, depth);
        put("\"");
      }
      put(style.key_separator);
      json(entries[order[i]].second, style, depth + 1);
    });
  } else if (value.is_bool()) {
    put(value.truthy() ? "true" : "false");
  } else if (value.is_none()) {
    put("null");
  } else if (value.is_float()) {
    const double v = value.number();
    put(std::isnan(v) ? "NaN" : std::isinf(v) ? (v > 0 ? "Infinity" : "-Infinity") : float_text(v));
  } else if (value.is_integer()) {
    put(std::to_string(value.integer()));
  } else {
    throw TemplateError(0, fmt::format("{} cannot be written as JSON", value.type_name()));
  }
}

Value from_json(const ordered_json& json) {
  if (json.is_null()) return {};
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_integer()) {
    if (json.is_number_unsigned() && json.get<std::uint64_t>() > INT64_MAX) return json.get<double>();
    return json.get<std::int64_t>();
  }
  if (json.is_number()) return json.get<double>();
  if (json.is_string()) return json.get<std::string>();
  if (json.is_array()) {
    List list;
    for (const auto& item : json) list.push_back(from_json(item));
    return list;
  }
  auto dict = std::make_shared<Dict>();
  for (auto it = json.begin(); it != json.end(); ++it)
    dict->entries.emplace_back(it.key(), from_json(it.value()));
  return dict;
}

bool equal_at(const Value& a, const Value& b, int depth, Budget& budget) {
  check_depth(depth);
  budget.spend();
  if (a.is_number() && b.is_number())
    return a.is_float() || b.is_float() ? a.number() == b.number() : a.integer() == b.integer();
  if (a.is_string() && b.is_string()) {
    if (a.string().size() != b.string().size()) return false;
    budget.spend(a.string().size());
    return a.string() == b.string();
  }
  if ((a.is_none() && b.is_none()) || (a.is_undefined() && b.is_undefined())) return true;
  if (a.is_list() && b.is_list())
    return a.is_tuple() == b.is_tuple() &&
           std::equal(a.list().begin(), a.list().end(), b.list().begin(), b.list().end(),
                      [&](const Value& x, const Value& y) { return equal_at(x, y, depth + 1, budget); });
  if (a.is_dict() && b.is_dict()) {
    if (a.dict().entries.size() != b.dict().entries.size()) return false;
    return std::all_of(a.dict().entries.begin(), a.dict().entries.end(), [&](const auto& entry) {
      budget.spend_items(b.dict().entries.size());
      const Value* other = b.dict().find_key(entry.first, budget);
      return other != nullptr && equal_at(entry.second, *other, depth + 1, budget);
    });
  }
  return false;
}

bool less_at(const Value& a, const Value& b, int depth, Budget& budget) {
  check_depth(depth);
  budget.spend();
  if (a.is_number() && b.is_number()) return a.number() < b.number();
  if (a.is_string() && b.is_string()) {
    budget.spend(std::min(a.string().size(), b.string().size()));
    return a.string() < b.string();  // UTF-8 sorts by code point
  }
  if (a.is_list() && b.is_list()) {
    return std::lexicographical_compare(
        a.list().begin(), a.list().end(), b.list().begin(), b.list().end(),
        [&](const Value& x, const Value& y) { return less_at(x, y, depth + 1, budget); });
  }
  throw TemplateError(0, fmt::format("{} and {} have no order", a.type_name(), b.type_name()));
}

/// As Python hashes them: 1, 1.0 and True are one key.
bool same_key(const Value& a, const Value& b, std::size_t& compared) {
  if (a.is_string() && b.is_string()) {
    if (a.string().size() != b.string().size()) return false;
    compared += a.string().size();
    return a.string() == b.string();
  }
  if (a.is_number() && b.is_number())
    return a.is_float() || b.is_float() ? a.number() == b.number() : a.integer() == b.integer();
  return a.is_none() && b.is_none();
}

/// Which entry has this key; their number where none has.
std::size_t place_of(const std::vector<std::pair<Value, Value>>& entries, const Value& key, Budget& budget) {
  std::size_t at = 0, compared = 0;
  for (bool same = false; at < entries.size(); ++at) {
    same = same_key(entries[at].first, key, compared);
    if (compared >= kLongKey) budget.spend(std::exchange(compared, 0));
    if (same) break;
  }
  return at;
}

}  // namespace

Undefined::Undefined(std::string_view name_)
    : name(std::make_shared<const std::string>(name_.substr(0, 200))) {}

const Value* Dict::find(std::string_view key, Budget& budget) const {
  for (const auto& entry : entries) {
    if (!entry.first.is_string() || entry.first.string().size() != key.size()) continue;
    if (key.size() >= kLongKey) budget.spend(key.size());
    if (entry.first.string() == key) return &entry.second;
  }
  return nullptr;
}

const Value* Dict::find_key(const Value& key, Budget& budget) const {
  const std::size_t at = place_of(entries, key, budget);
  return at < entries.size() ? &entries[at].second : nullptr;
}

void Dict::set(Value key, Value value, Budget& budget) {
  INGOT_CHECK(key.is_key(),
              TemplateError(0, fmt::format("{} cannot be the key of a mapping", key.type_name())));
  if (const std::size_t at = place_of(entries, key, budget); at < entries.size())
    entries[at].second = std::move(value);
  else
    entries.emplace_back(std::move(key), std::move(value));
}

const Value* Arguments::find(std::size_t position, std::string_view name) const {
  if (position < positional.size()) return &positional[position];
  for (const auto& [key, value] : named)
    if (key == name) return &value;
  return nullptr;
}

Value::Value(List v) {
  int deepest = 0;
  for (const Value& item : v) deepest = std::max(deepest, item.nesting());
  check_depth(deepest + 1);
  data_ = std::make_shared<ListBox>(ListBox{std::move(v), deepest + 1, false});
}

Value Value::tuple(List v) {
  Value out(std::move(v));
  std::get<std::shared_ptr<ListBox>>(out.data_)->tuple = true;
  return out;
}

Value::Value(std::shared_ptr<Dict> v) {
  int deepest = 0;
  if (v->kind == Dict::Kind::plain)
    for (const auto& entry : v->entries) deepest = std::max(deepest, entry.second.nesting());
  check_depth(deepest + 1);
  v->nesting = deepest + 1;
  data_ = std::move(v);
}

int Value::nesting() const {
  if (is_list()) return std::get<std::shared_ptr<ListBox>>(data_)->nesting;
  return is_dict() ? dict().nesting : 0;
}

bool Value::truthy() const {
  if (is_bool() || is_integer()) return integer() != 0;
  if (is_float()) return number() != 0;
  if (is_string()) return !string().empty();
  if (is_list()) return !list().empty();
  if (is_dict()) return dict().kind != Dict::Kind::plain || !dict().entries.empty();
  return is_function();
}

std::string_view Value::type_name() const {
  constexpr std::string_view kNames[] = {"None",       "an undefined value", "a boolean",
                                         "an integer", "a number",           "a string",
                                         "a list",     "a mapping",          "a function"};
  return kNames[data_.index()];
}

bool equal(const Value& a, const Value& b, Budget& budget) { return equal_at(a, b, 0, budget); }

bool less(const Value& a, const Value& b, Budget& budget) { return less_at(a, b, 0, budget); }

std::string to_text(const Value& value, Budget& budget) {
  Writer writer(budget);
  if (value.is_string()) {
    writer.put(value.string());
  } else if (value.is_list() || value.is_dict()) {
    writer.repr(value, 0);
  } else {
    writer.put(atom_text(value));
  }
  return writer.take();
}

std::string python_repr(const Value& value, Budget& budget) {
  Writer writer(budget);
  writer.repr(value, 0);
  return writer.take();
}

std::string to_json(const Value& value, Budget& budget, const JsonStyle& style) {
  Writer writer(budget);
  writer.json(value, style, 0);
  return writer.take();
}

Value parse_json(std::string_view text, const std::string& what) {
  return from_json(ingot::parse_json<ordered_json>(text, what));
}

}  // namespace ingot::text::jinja
