#include "ingot/text/jinja_expression_parser.h"

#include <fmt/format.h>

namespace ingot::text::jinja {

std::string ExpressionParser::shown() const {
  return here().kind == Token::Kind::end          ? "the end of the template"
         : here().kind == Token::Kind::block_end  ? "%}"
         : here().kind == Token::Kind::output_end ? "}}"
                                                  : "\"" + here().text + "\"";
}

void ExpressionParser::expect_op(std::string_view text) {
  if (!take_op(text)) fail(fmt::format("expected \"{}\", found {}", text, shown()));
}

std::string ExpressionParser::expect_name() {
  if (here().kind != Token::Kind::name) fail(fmt::format("expected a name, found {}", shown()));
  return tokens_[at_++].text;
}

void ExpressionParser::expect(Token::Kind kind, std::string_view text) {
  if (here().kind != kind) fail(fmt::format("expected {}, found {}", text, shown()));
  ++at_;
}

NodePtr ExpressionParser::make(Kind kind, std::string text) const {
  auto node = std::make_unique<Node>();
  node->kind = kind;
  node->line = here().line;
  node->text = std::move(text);
  return node;
}

NodePtr ExpressionParser::make(Kind kind, std::string text, NodePtr first, NodePtr second) const {
  NodePtr node = make(kind, std::move(text));
  node->line = first->line;
  adopt(*node, std::move(first));
  if (second != nullptr) adopt(*node, std::move(second));
  return node;
}

void ExpressionParser::adopt(Node& node, NodePtr child) const {
  if (child != nullptr && child->depth >= node.depth) {
    node.depth = child->depth + 1;
    if (node.depth > max_depth_) fail("the template nests too deep");
  }
  node.children.push_back(std::move(child));
}

NodePtr ExpressionParser::tuple_or_expression(bool conditions) {
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

NodePtr ExpressionParser::expression() {
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

NodePtr ExpressionParser::or_expression() {
  NodePtr left = and_expression();
  while (take_name("or")) left = make(Kind::or_, {}, std::move(left), and_expression());
  return left;
}

NodePtr ExpressionParser::and_expression() {
  NodePtr left = not_expression();
  while (take_name("and")) left = make(Kind::and_, {}, std::move(left), not_expression());
  return left;
}

NodePtr ExpressionParser::not_expression() {
  const Depth depth(*this);
  if (take_name("not")) return make(Kind::not_, {}, not_expression());
  return comparison();
}

NodePtr ExpressionParser::comparison() {
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

NodePtr ExpressionParser::sum() {
  NodePtr left = concatenation();
  while (is_op("+") || is_op("-")) {
    const std::string op = tokens_[at_++].text;
    left = make(Kind::binary, op, std::move(left), concatenation());
  }
  return left;
}

NodePtr ExpressionParser::concatenation() {
  NodePtr left = product();
  while (take_op("~")) left = make(Kind::binary, "~", std::move(left), product());
  return left;
}

NodePtr ExpressionParser::product() {
  NodePtr left = power();
  while (is_op("*") || is_op("/") || is_op("//") || is_op("%")) {
    const std::string op = tokens_[at_++].text;
    left = make(Kind::binary, op, std::move(left), power());
  }
  return left;
}

NodePtr ExpressionParser::power() {
  NodePtr left = unary(true);
  while (take_op("**")) left = make(Kind::binary, "**", std::move(left), unary(true));
  return left;
}

NodePtr ExpressionParser::unary(bool with_filters) {
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

NodePtr ExpressionParser::primary() {
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
      for (MacroNames* macro : macros_) macro->note(token.text);
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

NodePtr ExpressionParser::parenthesized() {
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

void ExpressionParser::items(Node& list, std::string_view end) {
  while (!take_op(end)) {
    if (!list.children.empty()) expect_op(",");
    if (take_op(end)) break;
    adopt(list, expression());
  }
}

void ExpressionParser::arguments(Node& node) {
  bool first = true;
  while (!take_op(")")) {
    if (!first) expect_op(",");
    first = false;
    if (take_op(")")) return;
    if (here().kind == Token::Kind::name && tokens_[at_ + 1].kind == Token::Kind::op &&
        tokens_[at_ + 1].text == "=") {
      node.names.push_back(expect_name());
      ++at_;
    } else if (is_op("*") || is_op("**")) {
      node.names.push_back(tokens_[at_++].text);
    } else if (!node.names.empty()) {
      fail("a positional argument follows a keyword");
    }
    adopt(node, expression());
  }
}

NodePtr ExpressionParser::postfix(NodePtr node) {
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

NodePtr ExpressionParser::subscript(NodePtr value) {
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

std::string ExpressionParser::dotted_name() {
  std::string name = expect_name();
  while (take_op(".")) name += "." + expect_name();
  return name;
}

NodePtr ExpressionParser::filter(NodePtr value) {
  NodePtr node = make(Kind::filter, {}, std::move(value));
  node->text = dotted_name();
  if (take_op("(")) arguments(*node);
  return node;
}

NodePtr ExpressionParser::filters(NodePtr value) {
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

NodePtr ExpressionParser::test(NodePtr value) {
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
}  // namespace ingot::text::jinja
