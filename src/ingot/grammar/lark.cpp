#include <algorithm>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/base/utf8.h"
#include "ingot/grammar/ebnf.h"
#include "ingot/grammar/grammar.h"
#include "ingot/grammar/pattern.h"
#include "ingot/grammar/token_trie.h"

namespace ingot::grammar {
namespace {

bool is_lark_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}
bool is_terminal_name(std::string_view name) {
  const std::size_t first = name.find_first_not_of('_');
  return first != name.npos && name[first] >= 'A' && name[first] <= 'Z';
}

// The terminals of Lark's module "common", as expressions.
const std::map<std::string_view, const char*>& common_terminals() {
  static const std::map<std::string_view, const char*> kCommon = {
      {"DIGIT", "[0-9]"},
      {"HEXDIGIT", "[0-9a-fA-F]"},
      {"INT", "[0-9]+"},
      {"SIGNED_INT", "[+-]?[0-9]+"},
      {"DECIMAL", "[0-9]+\\.[0-9]*|\\.[0-9]+"},
      {"FLOAT", "[0-9]+[eE][+-]?[0-9]+|(?:[0-9]+\\.[0-9]*|\\.[0-9]+)(?:[eE][+-]?[0-9]+)?"},
      {"SIGNED_FLOAT", "[+-]?(?:[0-9]+[eE][+-]?[0-9]+|(?:[0-9]+\\.[0-9]*|\\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"},
      {"NUMBER", "[0-9]+|[0-9]+[eE][+-]?[0-9]+|(?:[0-9]+\\.[0-9]*|\\.[0-9]+)(?:[eE][+-]?[0-9]+)?"},
      {"SIGNED_NUMBER",
       "[+-]?(?:[0-9]+|[0-9]+[eE][+-]?[0-9]+|(?:[0-9]+\\.[0-9]*|\\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"},
      {"ESCAPED_STRING", "\"(?:[^\"\\\\\\n]|\\\\[^\\n])*\""},
      {"LCASE_LETTER", "[a-z]"},
      {"UCASE_LETTER", "[A-Z]"},
      {"LETTER", "[a-zA-Z]"},
      {"WORD", "[a-zA-Z]+"},
      {"CNAME", "[_a-zA-Z][_a-zA-Z0-9]*"},
      {"WS_INLINE", "[ \\t]+"},
      {"WS", "[ \\t\\f\\r\\n]+"},
      {"CR", "\\r"},
      {"LF", "\\n"},
      {"NEWLINE", "(?:\\r?\\n)+"}};
  return kCommon;
}

class LarkParser {
 public:
  LarkParser(const Vocabulary& vocabulary, std::string_view source)
      : vocabulary_(vocabulary), in_(source, "grammar"), rules_(vocabulary, in_) {}

  GrammarPtr parse() {
    for (space(true); !in_.at_end(); space(true)) statement();
    // Terminals are expressions; what is ignored may stand in front of each, and at the end.
    std::vector<ExprId> ignored;
    for (const auto& [body, position] : ignored_) ignored.push_back(terminal_expression(body, position));
    ignore_ = rules_.expressions().star(rules_.expressions().either(ignored));
    for (Statement& each : statements_) {
      const bool terminal = is_terminal_name(each.name);
      if (!terminal) put_ignored(each.body);
      rules_.define(each.name, each.position, std::move(each.body));
    }
    rules_.define(
        " start", 0,
        Ebnf::list(Ebnf::Kind::sequence, {Ebnf::reference(rules_.use("start", 0)), Ebnf::terminal(ignore_)}));
    return rules_.finish(" start");
  }

 private:
  struct Statement {
    std::string name;
    std::size_t position;
    Ebnf body;
  };

  void space(bool lines) { in_.space(lines, {"//", "#"}); }

  void statement() {
    const std::size_t position = in_.position();
    if (in_.take("%")) return directive(position);
    while (in_.peek() == '?' || in_.peek() == '!') in_.skip();  // of the tree, which is not made
    const std::string_view name = in_.word(is_lark_name);
    if (name.empty()) in_.fail("the name of a rule or a terminal is expected here");
    if (in_.take(".")) in_.number();  // priority, which changes no text
    if (in_.peek() == '{') in_.fail("templates are not supported");
    space(false);
    if (!in_.take(":")) in_.fail(fmt::format("':' is expected behind '{}'", name));
    in_terminal_ = is_terminal_name(name);
    Ebnf body = choice(false);
    if (!in_.at_end() && in_.peek() != '\n' && in_.peek() != '\r') in_.fail("this is not expected here");
    rules_.use(name, position);
    statements_.push_back({std::string(name), position, std::move(body)});
  }

  void directive(std::size_t position) {
    const std::string_view word = in_.word(is_lark_name);
    space(false);
    if (word == "ignore") {
      in_terminal_ = true;
      const std::size_t at = in_.position();
      ignored_.emplace_back(choice(false), at);
    } else if (word == "import") {
      import(position);
    } else {
      in_.fail_at(position, fmt::format("%{} is not supported: %ignore and %import are", word));
    }
  }

  void import(std::size_t position) {
    if (!in_.take("common.")) in_.fail_at(position, "only terminals of the module 'common' can be imported");
    const std::size_t at = in_.position();
    const std::string_view name = in_.word(is_lark_name);
    const auto found = common_terminals().find(name);
    if (found == common_terminals().end()) in_.fail_at(at, fmt::format("common.{} is not known", name));
    space(false);
    std::string_view as = name;
    if (in_.take("->")) {
      space(false);
      as = in_.word(is_lark_name);
    }
    rules_.use(as, position);
    statements_.push_back(
        {std::string(as), position,
         Ebnf::terminal(compile_pattern(rules_.expressions(), found->second, {}, "grammar"))});
  }

  ExprId terminal_expression(const Ebnf& body, std::size_t position) {
    define_terminals();
    if (body.kind == Ebnf::Kind::terminal) return body.expr;
    const std::string name = fmt::format(" ignored {}", position);
    rules_.define(name, position, body);
    return rules_.expression(rules_.use(name, position), position);
  }
  void define_terminals() {
    for (Statement& each : statements_)
      if (is_terminal_name(each.name)) rules_.define(each.name, each.position, each.body);
    std::erase_if(statements_, [](const Statement& each) { return is_terminal_name(each.name); });
  }

  // Within rules: what is ignored stands in front of each terminal.
  void put_ignored(Ebnf& body) {
    const bool terminal = body.kind == Ebnf::Kind::terminal ||
                          (body.kind == Ebnf::Kind::rule && is_terminal_name(rules_.name(body.rule)));
    if (!terminal) {
      for (Ebnf& part : body.parts) put_ignored(part);
      return;
    }
    if (ignore_ == Expressions::kEmpty ||
        (body.kind == Ebnf::Kind::terminal && body.expr == Expressions::kEmpty))
      return;
    std::vector<Ebnf> parts{Ebnf::terminal(ignore_), std::move(body)};
    body = {.kind = Ebnf::Kind::sequence, .parts = std::move(parts)};
  }

  Ebnf choice(bool nested) {
    const SourceReader::Nested depth(in_);
    std::vector<Ebnf> choices;
    space(true);
    in_.take("|");
    while (true) {
      choices.push_back(sequence(nested));
      const std::size_t end = in_.position();
      space(true);
      if (!in_.take("|")) {
        if (!nested) in_.go_to(end);
        return Ebnf::list(Ebnf::Kind::choice, std::move(choices));
      }
    }
  }

  Ebnf sequence(bool nested) {
    std::vector<Ebnf> parts;
    while (true) {
      space(nested);
      if (in_.take("->")) {  // the name of the alternative, in the tree
        space(false);
        in_.word(is_lark_name);
        space(nested);
      }
      const char c = in_.peek();
      if (in_.at_end() || c == '|' || c == ')' || c == ']' || c == '\n' || c == '\r') break;
      parts.push_back(quantified(element()));
    }
    return Ebnf::list(Ebnf::Kind::sequence, std::move(parts));
  }

  Ebnf element() {
    const std::size_t position = in_.position();
    if (in_.take("(")) {
      Ebnf inner = choice(true);
      if (!in_.take(")")) in_.fail_at(position, "this ( has no )");
      return inner;
    }
    if (in_.take("[")) {
      Ebnf inner = choice(true);
      if (!in_.take("]")) in_.fail_at(position, "this [ has no ]");
      return Ebnf::repeat(std::move(inner), 0, 1);
    }
    if (in_.peek() == '"') return string();
    if (in_.take("/")) return regex(position);
    if (in_.take("<")) return special(position);
    const std::string_view name = in_.word(is_lark_name);
    if (name.empty()) in_.fail("a rule, a terminal, a string, an expression or a group is expected here");
    if (in_terminal_ && !is_terminal_name(name))
      in_.fail_at(position, fmt::format("a terminal cannot use the rule '{}'", name));
    return Ebnf::reference(rules_.use(name, position));
  }

  std::string quoted() {
    const std::size_t position = in_.position();
    in_.skip();
    std::string text;
    while (!in_.take("\"")) {
      if (in_.at_end() || in_.peek() == '\n') in_.fail_at(position, "this string does not end");
      char32_t c = in_.character();
      if (c == '\\') {
        const char32_t letter = in_.character();
        c = letter == 'n'   ? U'\n'
            : letter == 't' ? U'\t'
            : letter == 'r' ? U'\r'
            : letter == 'f' ? U'\f'
            : letter == 'x' ? in_.hex(2)
            : letter == 'u' ? in_.hex(4)
                            : letter;
      }
      if (c >= 0xD800 && c < 0xE000) in_.fail_at(position, "this string holds half a surrogate pair");
      append_utf8(text, c);
    }
    return text;
  }

  Ebnf string() {
    const std::size_t position = in_.position();
    const std::string text = quoted();
    if (in_.rest().starts_with("..\"")) {
      in_.skip(2);
      const std::u32string first = to_utf32(text), last = to_utf32(quoted());
      if (first.size() != 1 || last.size() != 1 || first > last)
        in_.fail_at(position, "a range goes from one character to a later one");
      return Ebnf::terminal(utf8(rules_.expressions(), CharSet{{first[0], last[0]}}));
    }
    if (!in_.take("i")) return Ebnf::terminal(rules_.expressions().literal(text));
    std::vector<ExprId> parts;
    for (const char32_t c : to_utf32(text))
      parts.push_back(utf8(rules_.expressions(), ignoring_case(CharSet::of(c))));
    return Ebnf::terminal(rules_.expressions().concat(parts));
  }

  Ebnf regex(std::size_t position) {
    std::string pattern;
    while (!in_.take("/")) {
      if (in_.at_end() || in_.peek() == '\n') in_.fail_at(position, "this expression does not end");
      if (in_.take("\\/")) {
        pattern += '/';
      } else if (in_.peek() == '\\') {
        pattern += '\\';
        in_.skip();
        append_utf8(pattern, in_.character());
      } else {
        append_utf8(pattern, in_.character());
      }
    }
    for (; in_.peek() >= 'a' && in_.peek() <= 'z'; in_.skip()) {
      if (in_.peek() == 'i') {
        pattern.insert(0, "(?i)");
      } else {
        in_.fail(fmt::format("the flag '{}' is not supported: 'i' is", in_.peek()));
      }
    }
    try {
      return Ebnf::terminal(compile_pattern(rules_.expressions(), pattern, {}, "grammar"));
    } catch (const InvalidConfig& error) {
      in_.fail_at(position, error.what());
    }
  }

  // <name>: a special token.
  Ebnf special(std::size_t position) {
    const std::size_t end = in_.rest().find('>');
    if (end == std::string_view::npos) in_.fail_at(position, "this token does not end");
    const std::string name = "<" + std::string(in_.rest().substr(0, end + 1));
    in_.skip(end + 1);
    if (!vocabulary_.trie().has(kSpecialMark + name))
      in_.fail_at(position, fmt::format("there is no special token '{}'", name));
    return Ebnf::terminal(rules_.expressions().literal(kSpecialMark + name));
  }

  Ebnf quantified(Ebnf part) {
    while (true) {
      const std::size_t position = in_.position();
      if (in_.take("*")) {
        part = Ebnf::repeat(std::move(part), 0, Expressions::kMany);
      } else if (in_.take("+")) {
        part = Ebnf::repeat(std::move(part), 1, Expressions::kMany);
      } else if (in_.take("?")) {
        part = Ebnf::repeat(std::move(part), 0, 1);
      } else if (in_.take("~")) {
        space(false);
        const std::uint32_t least = in_.number(), most = in_.take("..") ? in_.number() : least;
        if (most < least) in_.fail_at(position, "these bounds are the wrong way round");
        part = Ebnf::repeat(std::move(part), least, most);
      } else {
        return part;
      }
    }
  }

  const Vocabulary& vocabulary_;
  SourceReader in_;
  EbnfRules rules_;
  std::vector<Statement> statements_;
  std::vector<std::pair<Ebnf, std::size_t>> ignored_;
  ExprId ignore_ = Expressions::kEmpty;
  bool in_terminal_ = false;
};

}  // namespace

GrammarPtr from_lark(const Vocabulary& vocabulary, std::string_view source) {
  return LarkParser(vocabulary, source).parse();
}

}  // namespace ingot::grammar
