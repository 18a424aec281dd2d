#include "tests/fuzz/generate/source.h"

// JSON, YAML, templates, patterns, grammars, tables and answers of servers.

namespace ingot::test {
namespace {

std::string repeated(std::string_view piece, std::size_t times) {
  std::string result;
  result.reserve(piece.size() * times);
  for (; times > 0; --times) result += piece;
  return result;
}

/// How often something is nested or repeated: seldom so often that recursion would use up the stack.
std::size_t many(Source& source) {
  return source.one_in(12) ? (source.one_in(2) ? 20000 : 65000) : 1 + source.below(40);
}

std::string json_value(Source& source, const std::vector<std::string_view>& keys, int depth) {
  switch (source.below(depth > 4 ? 4 : 7)) {
    case 0:
      return source.number();
    case 1:
      return "\"" + source.text() + "\"";
    case 2:
      return std::string(
          source.one_of({"null", "true", "false", "\"gelu\"", "\"llama\"", "\"bert\"", "\"gpt2\""}));
    case 3:
      return source.one_in(20) ? repeated("[", many(source)) : "[" + source.number() + "]";
    case 4: {
      std::string list = "[";
      for (std::size_t n = source.below(5); n > 0; --n) list += json_value(source, keys, depth + 1) + ",";
      return list + source.number() + "]";
    }
    default: {
      std::string object = "{";
      for (std::size_t n = source.below(6); n > 0; --n)
        object += "\"" + std::string(source.of(keys)) + "\":" + json_value(source, keys, depth + 1) + ",";
      return object + "\"" + std::string(source.of(keys)) + "\":" + json_value(source, keys, depth + 1) + "}";
    }
  }
}

std::string expression(Source& source, int depth) {
  if (depth > 4)
    return std::string(
        source.one_of({"messages", "1", "'ab'", "x", "[1, 2]", "{'a': 1}", "9223372036854775807"}));
  const std::string a = expression(source, depth + 1);
  switch (source.below(8)) {
    case 0:
      return "(" + a +
             std::string(source.one_of({"+", "*", "~", " and ", " in ", "==", "<", "%", "//", "**", "-"})) +
             expression(source, depth + 1) + ")";
    case 1:
      return a + "|" +
             std::string(source.one_of({"upper", "tojson", "join(',')", "list", "unique", "length", "sort",
                                        "reverse|list", "replace('a','aa')", "center(1000000000)",
                                        "batch(2)|list", "indent(99999)", "format(1)", "string", "trim"}));
    case 2:
      return a + repeated(source.one_of({".b", "[0]", "[-1]", "[::2]", "|upper", ".strip()", "*2"}),
                          many(source));
    case 3:
      return "range(" + std::to_string(source.integer()) + ")";
    case 4:
      return "(" + a + ")*" + std::to_string(source.integer());
    case 5:
      return "'%" + std::to_string(source.integer()) + "d'%(" + a + ")";
    default:
      return a;
  }
}

std::string statement(Source& source, int depth) {
  const std::string body = depth > 3 ? "{{x}}" : statement(source, depth + 1);
  switch (source.below(7)) {
    case 0:
      return "{% for x in " + expression(source, 2) + " %}" + body + "{% endfor %}";
    case 1:
      return "{% if " + expression(source, 2) + " %}" + body + "{% else %}" + body + "{% endif %}";
    case 2:
      return "{% set x = " + expression(source, 2) + " %}" + body;
    case 3:
      return "{% set x = x ~ x %}" + repeated("{% set x = x ~ x %}", source.below(50)) + body;
    case 4:
      return "{% macro m(x) %}" + body + "{{ m(x) }}{% endmacro %}{{ m(1) }}";
    case 5:
      return repeated(source.one_of({"{% if 1 %}", "{{", "{%", "((", "{{ 1+", "{% for a in b %}"}),
                      many(source));
    default:
      return "{{ " + expression(source, 0) + " }}" + body;
  }
}

std::string pattern(Source& source, int depth) {
  if (depth > 4)
    return std::string(source.one_of({"a", ".", "\\p{L}", "\\w", "[^a-z]", "\\s", "\xC3\xA9", "", "\\K"}));
  const std::string inner = pattern(source, depth + 1);
  switch (source.below(8)) {
    case 0:
      return "(" + inner + ")" + std::string(source.one_of({"*", "+", "?", "{2,}", "{0,65535}", "*+", "??"}));
    case 1:
      return inner + "|" + pattern(source, depth + 1);
    case 2:
      return std::string(source.one_of({"(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:", "(?:"})) + inner + ")";
    case 3:
      return inner + "{" + std::to_string(source.integer()) + "," + std::to_string(source.integer()) + "}";
    case 4:
      return "[" + repeated(source.one_of({"a-z", "\\p{L}", "^", "]", "&&[a]", "\\"}), 1 + source.below(4)) +
             "]";
    case 5:
      return repeated(source.one_of({"(", "[", "a?", "(a*)*", "|"}), many(source));
    default:
      return inner + pattern(source, depth + 1);
  }
}

}  // namespace

std::string hostile_json(Source& source, const std::vector<std::string_view>& keys) {
  std::string text = json_value(source, keys, 0);
  if (source.one_in(3)) {  // an object of all keys, most of them sane
    text = "{";
    for (const std::string_view key : keys)
      text += "\"" + std::string(key) +
              "\":" + (source.one_in(3) ? json_value(source, keys, 3) : source.number()) + ",";
    text += "\"\":0}";
  }
  if (source.one_in(10)) text.resize(source.below(text.size() + 1));
  return text;
}

std::string hostile_yaml(Source& source) {
  std::string text;
  for (std::size_t n = 1 + source.below(12); n > 0; --n) {
    const std::string key = "k" + std::to_string(source.below(20));
    switch (source.below(9)) {
      case 0:
        text += key + ": &a" + std::to_string(n) + " [*a" + std::to_string(n + 1) + ", *a" +
                std::to_string(n + 1) + "]\n";
        break;
      case 1:
        text += key + ": " + repeated(source.one_of({"[", "{a: ", "- "}), many(source)) + "\n";
        break;
      case 2:
        text += key + ": " + source.number() + "\n";
        break;
      case 3:
        text += key + ": &b \"" + repeated("x", many(source)) + "\"\n" + "l: [" +
                repeated("*b, ", many(source)) + "0]\n";
        break;
      case 4:
        text += key + ": |\n  " + source.text() + "\n";
        break;
      case 5:
        for (std::size_t i = many(source); i > 0; --i) text += "q" + std::to_string(i) + ": 1\n";
        break;
      case 6:
        text += "<<: *" + key + "\n? [" + source.number() + "]\n: " + key + "\n";
        break;
      case 7:
        text += "&" + key + " " + key + ": *" + key + "\n";
        break;
      default:
        text += key + ": !!" + std::string(source.one_of({"int", "binary", "python/object", "map"})) + " " +
                source.text() + "\n";
    }
  }
  return text;
}

std::string hostile_template(Source& source) { return statement(source, 0); }
std::string hostile_pattern(Source& source) { return pattern(source, 0); }

std::string hostile_grammar(Source& source, bool lark) {
  const std::string_view is = lark ? ": " : " ::= ";
  std::string text = std::string(lark ? "start" : "root") + std::string(is);
  for (std::size_t rules = 1 + source.below(6); rules > 0; --rules) {
    for (std::size_t n = source.below(6); n > 0; --n) {
      text += std::string(
                  source.one_of({"\"a\"", "r1", "r2", "( ", " )", "|", "r1*", "r2+", "\"\\x00\"", "r3?"})) +
              " ";
      if (source.one_in(8))
        text += "{" + std::to_string(source.integer()) + "," + std::to_string(source.integer()) + "}";
      if (source.one_in(6)) text += lark ? "/" + pattern(source, 3) + "/ " : "[" + source.text() + "] ";
      if (source.one_in(10)) text += repeated(source.one_of({"(", "\"a\" ", "r1 "}), many(source));
    }
    text += "\nr" + std::to_string(source.below(4)) + std::string(is);
  }
  return text + "\"b\"\n";
}

std::string hostile_table(Source& source) {
  std::string text;
  const std::string_view separator = source.one_of({",", ";", "\t", "|"});
  const std::size_t columns = source.one_in(12) ? 100000 : 1 + source.below(6);
  for (std::size_t row = source.below(20) + 1; row > 0 && text.size() < (1 << 20); --row) {
    for (std::size_t i = 0; i < columns; ++i) {
      text += source.one_in(4) ? "\"" + source.text() + (source.one_in(6) ? "" : "\"")
                               : std::string(source.one_of({"2024-01-01", "1.5", "NaN", "1,5", "", "9e999",
                                                            "31/12/99", "\xFF\xFE"}));
      text += separator;
    }
    text += source.one_of({"\n", "\r\n", "\r", "\n\n"});
  }
  return text;
}

std::string hostile_answer(Source& source) {
  std::string text = std::string(
      source.one_of({"HTTP/1.1 200 OK\r\n", "HTTP/1.1 206 x\r\n", "HTTP/1.0 302 \r\n", "HTTP/9.9 -1\r\n",
                     "HTTP/1.1 500 \r\n", "ICY 200\r\n", "", "HTTP/1.1 100\r\n\r\nHTTP/1.1 200 OK\r\n"}));
  for (std::size_t n = source.below(8); n > 0; --n) {
    text +=
        std::string(source.one_of({"Content-Length", "Content-Range", "Transfer-Encoding", "ETag", "Location",
                                   "Retry-After", "Content-Encoding", "X-Linked-Size", "X"})) +
        ": ";
    text += source.one_in(3)
                ? source.number()
                : std::string(source.one_of({"chunked", "gzip", "bytes 0-9223372036854775807/*",
                                             "bytes 5-1/0", "/file", "\"\x1b[2J\"", "http://127.0.0.1:1/"}));
    if (source.one_in(12)) text += repeated("y", many(source));
    text += "\r\n";
  }
  text += "\r\n";
  if (source.one_in(3))
    text += std::string(
        source.one_of({"ffffffffffffffff\r\n", "5\r\nhello\r\n0\r\n\r\n", "-1\r\n", "\x1f\x8b\x08"}));
  return text + repeated("z", source.below(3000));
}

}  // namespace ingot::test
