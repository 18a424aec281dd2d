#include <fmt/format.h>

#include "ingot/base/utf8.h"
#include "ingot/grammar/ebnf.h"
#include "ingot/grammar/grammar.h"
#include "ingot/grammar/token_trie.h"

namespace ingot::grammar {
namespace {

bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

class GbnfParser {
 public:
  GbnfParser(const Vocabulary& vocabulary, std::string_view source)
      : vocabulary_(vocabulary), in_(source, "grammar"), rules_(vocabulary, in_) {}

  GrammarPtr parse() {
    for (space(true); !in_.at_end(); space(true)) rule();
    return rules_.finish("root");
  }

 private:
  void space(bool lines) { in_.space(lines, {"#"}); }

  void rule() {
    const std::size_t position = in_.position();
    const std::string_view name = in_.word(is_name);
    if (name.empty()) in_.fail("the name of a rule is expected here");
    space(false);
    if (!in_.take("::=")) in_.fail(fmt::format("'::=' is expected behind '{}'", name));
    space(true);
    Ebnf body = choice(false);
    if (!in_.at_end() && in_.peek() != '\n' && in_.peek() != '\r')
      in_.fail(fmt::format("'{}' is not expected here", in_.rest().substr(0, utf8_length(in_.peek()))));
    rules_.define(name, position, std::move(body));
  }

  Ebnf choice(bool nested) {
    const SourceReader::Nested depth(in_);
    std::vector<Ebnf> choices;
    while (true) {
      choices.push_back(sequence(nested));
      const std::size_t end = in_.position();
      space(true);  // a line may begin with |
      if (!in_.take("|")) {
        if (!nested) in_.go_to(end);
        return Ebnf::list(Ebnf::Kind::choice, std::move(choices));
      }
      space(true);
    }
  }

  Ebnf sequence(bool nested) {
    std::vector<Ebnf> parts;
    while (true) {
      space(nested);
      const char c = in_.peek();
      if (in_.at_end() || c == '|' || c == ')' || c == '\n' || c == '\r') break;
      parts.push_back(quantified(element()));
    }
    return Ebnf::list(Ebnf::Kind::sequence, std::move(parts));
  }

  Ebnf element() {
    const std::size_t position = in_.position();
    if (in_.take("\"")) return literal(position);
    if (in_.take("[")) return Ebnf::terminal(utf8(rules_.expressions(), char_class(position)));
    if (in_.take(".")) return Ebnf::terminal(utf8(rules_.expressions(), CharSet::all()));
    if (in_.take("(")) {
      space(true);
      Ebnf inner = choice(true);
      if (!in_.take(")")) in_.fail_at(position, "this ( has no )");
      return inner;
    }
    if (in_.take("<")) return special(position);
    const std::string_view name = in_.word(is_name);
    if (name.empty()) in_.fail("a rule, a string, a class of characters or a group is expected here");
    return Ebnf::reference(rules_.use(name, position));
  }

  char32_t escaped(char quote) {
    const std::size_t position = in_.position();
    const char32_t c = in_.character();
    if (c != '\\') return c;
    const char32_t letter = in_.character();
    switch (letter) {
      case 'n':
        return '\n';
      case 'r':
        return '\r';
      case 't':
        return '\t';
      case 'x':
        return in_.hex(2);
      case 'u':
        return in_.hex(4);
      case 'U':
        return in_.hex(8);
      default:
        break;
    }
    if (letter != '\\' && letter != '"' && letter != '[' && letter != ']' && letter != '-' && letter != '^' &&
        letter != '/' && letter != '\'')
      in_.fail_at(position, fmt::format("this escape is not known (within {})", quote));
    return letter;
  }

  Ebnf literal(std::size_t position) {
    std::string text;
    while (!in_.take("\"")) {
      if (in_.at_end() || in_.peek() == '\n') in_.fail_at(position, "this string does not end");
      const std::size_t at = in_.position();
      const char32_t c = escaped('"');
      if (c > 0x10FFFF || (c >= 0xD800 && c < 0xE000)) in_.fail_at(at, "this is not a character of Unicode");
      append_utf8(text, c);
    }
    return Ebnf::terminal(rules_.expressions().literal(text));
  }

  CharSet char_class(std::size_t position) {
    CharSet set;
    const bool negated = in_.take("^");
    while (!in_.take("]")) {
      if (in_.at_end() || in_.peek() == '\n') in_.fail_at(position, "this class of characters does not end");
      const std::size_t at = in_.position();
      const char32_t first = escaped('[');
      char32_t last = first;
      if (in_.peek() == '-' && in_.peek(1) != ']') {
        in_.skip();
        last = escaped('[');
      }
      if (last < first) in_.fail_at(at, "this range is the wrong way round");
      set.add(first, last);
    }
    return negated ? set.complement() : set;
  }

  // <[123]>: a token by its id; <name>: a special token by its name.
  Ebnf special(std::size_t position) {
    const TokenTrie& trie = vocabulary_.trie();
    std::string bytes;
    if (in_.take("[")) {
      const std::uint32_t id = in_.number();
      if (!in_.take("]>")) in_.fail("']>' is expected here");
      bytes = trie.bytes(static_cast<std::int32_t>(id));
      if (bytes.empty()) in_.fail_at(position, "there is no token with this id");
    } else {
      const std::size_t end = in_.rest().find('>');
      if (end == std::string_view::npos) in_.fail_at(position, "this token does not end");
      const std::string name = "<" + std::string(in_.rest().substr(0, end + 1));
      in_.skip(end + 1);
      bytes = kSpecialMark + name;
      if (!trie.has(bytes)) in_.fail_at(position, fmt::format("there is no special token '{}'", name));
    }
    return Ebnf::terminal(rules_.expressions().literal(bytes));
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
      } else if (in_.take("{")) {
        space(false);
        const std::uint32_t least = in_.peek() == ',' ? 0 : in_.number();
        std::uint32_t most = least;
        space(false);
        if (in_.take(",")) {
          space(false);
          most = in_.peek() == '}' ? Expressions::kMany : in_.number();
          space(false);
        }
        if (!in_.take("}")) in_.fail("'}' is expected here");
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
};

}  // namespace

GrammarPtr from_gbnf(const Vocabulary& vocabulary, std::string_view source) {
  return GbnfParser(vocabulary, source).parse();
}

}  // namespace ingot::grammar
