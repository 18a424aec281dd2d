#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ingot/text/chat_template.h"
#include "ingot/text/jinja_lexer.h"
#include "ingot/text/jinja_parser.h"

namespace ingot::text::jinja {

/// Reads the expressions of a template: what the parser of its statements stands on.
class ExpressionParser {
 protected:
  using Kind = Node::Kind;

  ExpressionParser(std::vector<Token> tokens, int max_depth)
      : tokens_(std::move(tokens)), max_depth_(max_depth) {}

  /// Guards against input that would exhaust the stack.
  class Depth {
   public:
    explicit Depth(ExpressionParser& parser) : parser_(parser) {
      if (++parser_.depth_ > parser_.max_depth_) parser_.fail("the template nests too deep");
    }
    ~Depth() { --parser_.depth_; }
    Depth(const Depth&) = delete;
    Depth& operator=(const Depth&) = delete;

   private:
    ExpressionParser& parser_;
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
  std::string shown() const;
  void expect_op(std::string_view text);
  std::string expect_name();
  void expect(Token::Kind kind, std::string_view text);
  NodePtr make(Kind kind, std::string text = {}) const;
  NodePtr make(Kind kind, std::string text, NodePtr first, NodePtr second = nullptr) const;
  /// A chain ("a + b + c", "x.y.z", "x | f | g") is parsed in a loop, but nests.
  void adopt(Node& node, NodePtr child) const;

  /// a, b, c is a list; `conditions` allows "x if y".
  NodePtr tuple_or_expression(bool conditions = true);
  NodePtr expression();
  NodePtr or_expression();
  NodePtr and_expression();
  NodePtr not_expression();
  /// a < b < c means a < b and b < c, where b is evaluated once.
  NodePtr comparison();
  NodePtr sum();
  NodePtr concatenation();
  NodePtr product();
  NodePtr power();
  NodePtr unary(bool with_filters);
  NodePtr primary();
  NodePtr parenthesized();
  void items(Node& list, std::string_view end);
  /// The arguments after "(" onto `node`: its names are the keywords of the last ones.
  void arguments(Node& node);
  NodePtr postfix(NodePtr node);
  NodePtr subscript(NodePtr value);
  std::string dotted_name();
  NodePtr filter(NodePtr value);
  NodePtr filters(NodePtr value);
  NodePtr test(NodePtr value);

  std::vector<Token> tokens_;
  int max_depth_;
  std::size_t at_ = 0;
  int depth_ = 0;
  std::vector<MacroNames*> macros_;  ///< those whose bodies are being read
};

}  // namespace ingot::text::jinja
