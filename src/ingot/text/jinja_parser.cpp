#include "ingot/text/jinja_parser.h"

#include <algorithm>
#include <initializer_list>

#include <fmt/format.h>

#include "ingot/text/chat_template.h"
#include "ingot/text/jinja_lexer.h"

namespace ingot::text::jinja {

namespace {

using Kind = Node::Kind;

class Parser {
 public:
  Parser(std::vector<Token> tokens, int max_depth) : tokens_(std::move(tokens)), max_depth_(max_depth) {}

  std::vector<NodePtr> run() {
    auto body = statements({});
    if (here().kind != Token::Kind::end) fail(fmt::format("unexpected {{% {} %}}", here().text));
    return body;
  }

 private:
  /// Guards against input that would exhaust the stack.
  class Depth {
   public:
    explicit Depth(Parser& parser) : parser_(parser) {
      if (++parser_.depth_ > parser_.max_depth_) parser_.fail("the template nests too deep");
    }
    ~Depth() { --parser_.depth_; }
    Depth(const Depth&) = delete;
    Depth& operator=(const Depth&) = delete;

   private:
    Parser& parser_;
  };

  const Token& here() const { return tokens_[at_]; }
  [[noreturn]] void fail(const std::string& problem) const { throw TemplateError(here().line, problem); }
  bool is(Token::Kind kind, std::string_view text) const {
    return here().kind == kind && here().text == text;
  }
  bool is_op(std::string_view text) const { return is(Token::Kind::op, text); }
  bool is_name(std::string_view text) const { return is(Token::Kind::name, text); }
  bool take_op(std::string_view text) {
    if (!is_op(text)) return false;
    ++at_;
    return true;
  }
  bool take_name(std::string_view text) {
    if (!is_name(text)) return false;
    ++at_;
    return true;
  }
  std::string shown() const {
    return here().kind == Token::Kind::end          ? "the end of the template"
           : here().kind == Token::Kind::block_end  ? "%}"
           : here().kind == Token::Kind::output_end ? "}}"
                                                    : "\"" + here().text + "\"";
  }
  void expect_op(std::string_view text) {
    if (!take_op(text)) fail(fmt::format("expected \"{}\", found {}", text, shown()));
  }
  std::string expect_name() {
    if (here().kind != Token::Kind::name) fail(fmt::format("expected a name, found {}", shown()));
    return tokens_[at_++].text;
  }
  void expect(Token::Kind kind, std::string_view text) {
    if (here().kind != kind) fail(fmt::format("expected {}, found {}", text, shown()));
    ++at_;
  }
  NodePtr make(Kind kind, std::string text = {}) const {
    auto node = std::make_unique<Node>();
    node->kind = kind;
    node->line = here().line;
    node->text = std::move(text);
    return node;
  }
  NodePtr make(Kind kind, std::string text, NodePtr first, NodePtr second = nullptr) const {
    NodePtr node = make(kind, std::move(text));
    node->line = first->line;
    adopt(*node, std::move(first));
    if (second != nullptr) adopt(*node, std::move(second));
    return node;
  }
  /// A chain ("a + b + c", "x.y.z", "x | f | g") is parsed in a loop, but nests.
  void adopt(Node& node, NodePtr child) const {
    if (child != nullptr && child->depth >= node.depth) {
      node.depth = child->depth + 1;
      if (node.depth > max_depth_) fail("the template nests too deep");
    }
    node.children.push_back(std::move(child));
  }

  /// Up to a block whose name is one of `ends`; that block's "{%" is taken, its name is not.
  std::vector<NodePtr> statements(std::initializer_list<std::string_view> ends) {
    const Depth depth(*this);
    std::vector<NodePtr> body;
    while (here().kind != Token::Kind::end) {
      if (here().kind == Token::Kind::text) {
        body.push_back(make(Kind::text, here().text));
        ++at_;
      } else if (here().kind == Token::Kind::output_begin) {
        ++at_;
        NodePtr node = make(Kind::output);
        adopt(*node, tuple_or_expression());
        expect(Token::Kind::output_end, "}}");
        body.push_back(std::move(node));
      } else {
        expect(Token::Kind::block_begin, "a tag");
        if (std::find(ends.begin(), ends.end(), here().text) != ends.end()) return body;
        body.push_back(statement());
      }
    }
    if (ends.size() > 0) fail(fmt::format("the template ends before {{% {} %}}", *(ends.end() - 1)));
    return body;
  }

  void end_block() { expect(Token::Kind::block_end, "%}"); }

  NodePtr statement() {
    const Token& token = here();
    const std::string name = expect_name();
    if (name == "if") return if_statement();
    if (name == "for") return for_statement();
    if (name == "set") return set_statement();
    if (name == "macro") return macro_statement();
    if (name == "filter") return filter_statement();
    if (name == "with") return with_statement();
    if (name == "block") return block_statement();
    if (name == "generation") return generation_block();
    if (name == "break" || name == "continue") {
      NodePtr node = make(name == "break" ? Kind::break_ : Kind::continue_);
      end_block();
      return node;
    }
    throw TemplateError(token.line, fmt::format("the tag \"{}\" is not supported", name));
  }

  NodePtr generation_block() {
    NodePtr node = make(Kind::generation);
    end_block();
    node->body = statements({"endgeneration"});
    ++at_;
    end_block();
    return node;
  }

  NodePtr if_statement() {
    NodePtr node = make(Kind::if_);
    adopt(*node, tuple_or_expression());
    end_block();
    node->body = statements({"elif", "else", "endif"});
    const std::string next = expect_name();
    if (next == "elif") {
      const Depth depth(*this);
      node->other.push_back(if_statement());
      return node;
    }
    end_block();
    if (next == "else") {
      node->other = statements({"endif"});
      ++at_;
      end_block();
    }
    return node;
  }

  std::vector<std::string> targets() {
    std::vector<std::string> names;
    const bool parenthesis = take_op("(");
    do {
      if (!names.empty() && here().kind != Token::Kind::name) break;  // a comma at the end
      names.push_back(expect_name());
    } while (take_op(","));
    if (parenthesis) expect_op(")");
    return names;
  }

  NodePtr for_statement() {
    NodePtr node = make(Kind::for_);
    node->names = targets();
    if (!take_name("in")) fail(fmt::format("expected \"in\", found {}", shown()));
    adopt(*node, tuple_or_expression(false));
    adopt(*node, take_name("if") ? expression() : nullptr);
    if (is_name("recursive")) fail("recursive loops are not supported");
    end_block();
    node->body = statements({"else", "endfor"});
    const std::string next = expect_name();
    end_block();
    if (next == "else") {
      node->other = statements({"endfor"});
      ++at_;
      end_block();
    }
    return node;
  }

  NodePtr set_statement() {
    NodePtr node = make(Kind::set);
    node->names = targets();
    if (node->names.size() == 1 && take_op(".")) {
      node->text = expect_name();
      if (!is_op("=")) fail(fmt::format("expected \"=\", found {}", shown()));
    }
    if (take_op("=")) {
      adopt(*node, tuple_or_expression());
      end_block();
      return node;
    }
    node->kind = Kind::set_block;
    if (is_op("|")) adopt(*node, filters(make(Kind::body_value)));
    end_block();
    node->body = statements({"endset"});
    ++at_;
    end_block();
    return node;
  }

  NodePtr macro_statement() {
    NodePtr node = make(Kind::macro);
    node->text = expect_name();
    expect_op("(");
    while (!take_op(")")) {
      if (!node->names.empty()) expect_op(",");
      if (take_op(")")) break;
      node->names.push_back(expect_name());
      adopt(*node, take_op("=") ? expression() : nullptr);
    }
    end_block();
    node->body = statements({"endmacro"});
    ++at_;
    if (here().kind == Token::Kind::name) ++at_;  // its name may be said again
    end_block();
    return node;
  }

  NodePtr with_statement() {
    NodePtr node = make(Kind::with);
    while (here().kind == Token::Kind::name) {
      node->names.push_back(expect_name());
      expect_op("=");
      adopt(*node, expression());
      if (!take_op(",")) break;
    }
    end_block();
    node->body = statements({"endwith"});
    ++at_;
    end_block();
    return node;
  }

  /// A block of a template that nobody extends is its body.
  NodePtr block_statement() {
    NodePtr node = make(Kind::with);
    expect_name();
    while (here().kind == Token::Kind::name) ++at_;  // scoped, required
    end_block();
    node->body = statements({"endblock"});
    ++at_;
    if (here().kind == Token::Kind::name) ++at_;  // its name may be said again
    end_block();
    return node;
  }

  NodePtr filter_statement() {
    NodePtr node = make(Kind::filter_block);
    adopt(*node, filter(make(Kind::body_value)));
    node->children[0] = filters(std::move(node->children[0]));
    end_block();
    node->body = statements({"endfilter"});
    ++at_;
    end_block();
    return node;
  }

  /// a, b, c is a list; `conditions` allows "x if y".
  NodePtr tuple_or_expression(bool conditions = true) {
    NodePtr first = conditions ? expression() : or_expression();
    if (!is_op(",")) return first;
    NodePtr node = make(Kind::list, std::string(kTuple));
    adopt(*node, std::move(first));
    while (take_op(",")) {
      if (here().kind == Token::Kind::block_end || here().kind == Token::Kind::output_end) break;
      adopt(*node, conditions ? expression() : or_expression());
    }
    return node;
  }

  NodePtr expression() {
    const Depth depth(*this);
    NodePtr value = or_expression();
    while (take_name("if")) {
      NodePtr node = make(Kind::condition);
      adopt(*node, std::move(value));
      adopt(*node, or_expression());
      adopt(*node, take_name("else") ? expression() : nullptr);
      value = std::move(node);
    }
    return value;
  }

  NodePtr or_expression() {
    NodePtr left = and_expression();
    while (take_name("or")) left = make(Kind::or_, {}, std::move(left), and_expression());
    return left;
  }

  NodePtr and_expression() {
    NodePtr left = not_expression();
    while (take_name("and")) left = make(Kind::and_, {}, std::move(left), not_expression());
    return left;
  }

  NodePtr not_expression() {
    const Depth depth(*this);
    if (take_name("not")) return make(Kind::not_, {}, not_expression());
    return comparison();
  }

  /// a < b < c means a < b and b < c, where b is evaluated once.
  NodePtr comparison() {
    NodePtr left = sum();
    NodePtr chain;
    while (true) {
      std::string op;
      for (const std::string_view candidate : {"==", "!=", "<=", ">=", "<", ">"})
        if (op.empty() && take_op(candidate)) op = candidate;
      if (op.empty() && take_name("in")) op = "in";
      if (op.empty() && is_name("not") && tokens_[at_ + 1].kind == Token::Kind::name &&
          tokens_[at_ + 1].text == "in") {
        at_ += 2;
        op = "not in";
      }
      if (op.empty()) return chain != nullptr ? std::move(chain) : std::move(left);
      if (chain == nullptr) {
        chain = make(Kind::compare);
        adopt(*chain, std::move(left));
      }
      chain->names.push_back(op);
      adopt(*chain, sum());
    }
  }

  NodePtr sum() {
    NodePtr left = concatenation();
    while (is_op("+") || is_op("-")) {
      const std::string op = tokens_[at_++].text;
      left = make(Kind::binary, op, std::move(left), concatenation());
    }
    return left;
  }

  NodePtr concatenation() {
    NodePtr left = product();
    while (take_op("~")) left = make(Kind::binary, "~", std::move(left), product());
    return left;
  }

  NodePtr product() {
    NodePtr left = power();
    while (is_op("*") || is_op("/") || is_op("//") || is_op("%")) {
      const std::string op = tokens_[at_++].text;
      left = make(Kind::binary, op, std::move(left), power());
    }
    return left;
  }

  NodePtr power() {
    NodePtr left = unary(true);
    while (take_op("**")) left = make(Kind::binary, "**", std::move(left), unary(true));
    return left;
  }

  NodePtr unary(bool with_filters) {
    const Depth depth(*this);
    NodePtr node;
    if (take_op("-"))
      node = make(Kind::negate, {}, unary(false));
    else if (take_op("+"))
      node = make(Kind::plus, {}, unary(false));
    else
      node = primary();
    node = postfix(std::move(node));
    return with_filters ? filters(std::move(node)) : std::move(node);
  }

  NodePtr primary() {
    NodePtr node = make(Kind::constant);
    const Token& token = here();
    if (token.kind == Token::Kind::string) {
      std::string text;
      while (here().kind == Token::Kind::string) text += tokens_[at_++].text;  // neighbours are one string
      node->value = std::move(text);
    } else if (token.kind == Token::Kind::number) {
      node->value = token.value;
      ++at_;
    } else if (token.kind == Token::Kind::name) {
      ++at_;
      if (token.text == "true" || token.text == "True")
        node->value = true;
      else if (token.text == "false" || token.text == "False")
        node->value = false;
      else if (token.text != "none" && token.text != "None") {
        node->kind = Kind::name;
        node->text = token.text;
      }
    } else if (take_op("(")) {
      if (take_op(")")) {
        node->kind = Kind::list;
        node->text = kTuple;
        return node;
      }
      node = parenthesized();
    } else if (take_op("[")) {
      node->kind = Kind::list;
      items(*node, "]");
    } else if (take_op("{")) {
      node->kind = Kind::dict;
      while (!take_op("}")) {
        if (!node->children.empty()) expect_op(",");
        if (take_op("}")) break;
        adopt(*node, expression());
        expect_op(":");
        adopt(*node, expression());
      }
    } else {
      fail(fmt::format("expected an expression, found {}", shown()));
    }
    return node;
  }

  NodePtr parenthesized() {
    NodePtr first = expression();
    if (take_op(")")) return first;
    NodePtr node = make(Kind::list, std::string(kTuple));
    adopt(*node, std::move(first));
    while (!take_op(")")) {
      expect_op(",");
      if (take_op(")")) break;
      adopt(*node, expression());
    }
    return node;
  }

  void items(Node& list, std::string_view end) {
    while (!take_op(end)) {
      if (!list.children.empty()) expect_op(",");
      if (take_op(end)) break;
      adopt(list, expression());
    }
  }

  /// The arguments after "(" onto `node`: its names are the keywords of the last ones.
  void arguments(Node& node) {
    bool first = true;
    while (!take_op(")")) {
      if (!first) expect_op(",");
      first = false;
      if (take_op(")")) return;
      if (here().kind == Token::Kind::name && tokens_[at_ + 1].kind == Token::Kind::op &&
          tokens_[at_ + 1].text == "=") {
        node.names.push_back(expect_name());
        ++at_;
      } else if (!node.names.empty()) {
        fail("a positional argument follows a keyword");
      } else if (is_op("*") || is_op("**")) {
        fail("unpacked arguments are not supported");
      }
      adopt(node, expression());
    }
  }

  NodePtr postfix(NodePtr node) {
    while (true) {
      if (take_op(".")) {
        if (here().kind == Token::Kind::number) {
          NodePtr index = make(Kind::constant);
          index->value = here().value;
          ++at_;
          node = make(Kind::item, {}, std::move(node), std::move(index));
        } else {
          node = make(Kind::attribute, expect_name(), std::move(node));
        }
      } else if (take_op("[")) {
        node = subscript(std::move(node));
      } else if (take_op("(")) {
        node = make(Kind::call, {}, std::move(node));
        arguments(*node);
      } else {
        return node;
      }
    }
  }

  NodePtr subscript(NodePtr value) {
    NodePtr parts[3];
    bool slice = false;
    for (int i = 0; i < 3; ++i) {
      if (!is_op(":") && !is_op("]")) parts[i] = expression();
      if (!take_op(":")) break;
      slice = true;
    }
    expect_op("]");
    if (!slice) {
      if (parts[0] == nullptr) fail("an empty subscript");
      return make(Kind::item, {}, std::move(value), std::move(parts[0]));
    }
    NodePtr node = make(Kind::slice, {}, std::move(value));
    for (NodePtr& part : parts) adopt(*node, std::move(part));
    return node;
  }

  std::string dotted_name() {
    std::string name = expect_name();
    while (take_op(".")) name += "." + expect_name();
    return name;
  }

  NodePtr filter(NodePtr value) {
    NodePtr node = make(Kind::filter, {}, std::move(value));
    node->text = dotted_name();
    if (take_op("(")) arguments(*node);
    return node;
  }

  NodePtr filters(NodePtr value) {
    while (true) {
      if (take_op("|")) {
        value = filter(std::move(value));
      } else if (take_name("is")) {
        value = test(std::move(value));
      } else if (take_op("(")) {
        value = make(Kind::call, {}, std::move(value));
        arguments(*value);
      } else {
        return value;
      }
    }
  }

  NodePtr test(NodePtr value) {
    const bool negated = take_name("not");
    NodePtr node = make(Kind::test, {}, std::move(value));
    node->text = dotted_name();
    const Token::Kind kind = here().kind;
    const bool word = kind == Token::Kind::name && !is_name("else") && !is_name("or") && !is_name("and") &&
                      !is_name("is") && !is_name("if") && !is_name("in") && !is_name("not");
    if (take_op("("))
      arguments(*node);
    else if (word || kind == Token::Kind::string || kind == Token::Kind::number || is_op("[") || is_op("{"))
      adopt(*node, postfix(primary()));
    return negated ? make(Kind::not_, {}, std::move(node)) : std::move(node);
  }

  std::vector<Token> tokens_;
  int max_depth_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

std::vector<NodePtr> parse(std::string_view source, int max_depth) {
  return Parser(lex(source), max_depth).run();
}

}  // namespace ingot::text::jinja
