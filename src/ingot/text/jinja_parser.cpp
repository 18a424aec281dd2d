#include "ingot/text/jinja_parser.h"

#include <algorithm>
#include <initializer_list>

#include <fmt/format.h>

#include "ingot/text/jinja_expression_parser.h"

namespace ingot::text::jinja {

namespace {

class Parser : ExpressionParser {
 public:
  Parser(std::vector<Token> tokens, int max_depth) : ExpressionParser(std::move(tokens), max_depth) {}

  Template run() {
    Template out;
    blocks_ = &out.blocks;
    out.body = statements({});
    if (here().kind != Token::Kind::end) fail(fmt::format("unexpected {{% {} %}}", here().text));
    return out;
  }

 private:
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

  /// The body of a tag up to the end of its {% end... %}, where the `name` of what ends may be said again.
  std::vector<NodePtr> body_until(std::string_view end, std::string_view name = {}) {
    end_block();
    auto body = statements({end});
    ++at_;
    if (!name.empty()) take_name(name);
    end_block();
    return body;
  }

  NodePtr statement() {
    const Token& token = here();
    const std::string name = expect_name();
    if (name == "if") return if_statement();
    if (name == "for") return for_statement();
    if (name == "set") return set_statement();
    if (name == "macro") return macro_statement();
    if (name == "call") return call_statement();
    if (name == "filter") return filter_statement();
    if (name == "with") return with_statement();
    if (name == "block") return block_statement();
    if (name == "generation") {
      NodePtr node = make(Kind::generation);
      node->body = body_until("endgeneration");
      return node;
    }
    if (name == "break" || name == "continue") {
      NodePtr node = make(name == "break" ? Kind::break_ : Kind::continue_);
      end_block();
      return node;
    }
    throw TemplateError(token.line, fmt::format("the tag \"{}\" is not supported", name));
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
    if (next == "else") {
      node->other = body_until("endif");
    } else {
      end_block();
    }
    return node;
  }

  /// What is assigned to: a name, an attribute of a namespace (where `attributes` allows it), or a tuple.
  NodePtr target(bool attributes) {
    NodePtr first = single_target(attributes);
    if (!is_op(",")) return first;
    NodePtr tuple = make(Kind::list, std::string(kTuple));
    adopt(*tuple, std::move(first));
    while (take_op(",")) {
      if (!is_op("(") && (here().kind != Token::Kind::name || is_name("in"))) break;  // a comma at the end
      adopt(*tuple, single_target(attributes));
    }
    return tuple;
  }

  NodePtr single_target(bool attributes) {
    const Depth depth(*this);
    if (take_op("(")) {
      NodePtr inner = target(attributes);
      expect_op(")");
      return inner;
    }
    NodePtr node = make(Kind::name);
    node->text = expect_name();
    return attributes && take_op(".") ? make(Kind::attribute, expect_name(), std::move(node))
                                      : std::move(node);
  }

  NodePtr for_statement() {
    NodePtr node = make(Kind::for_);
    adopt(*node, target(false));
    if (!take_name("in")) fail(fmt::format("expected \"in\", found {}", shown()));
    adopt(*node, tuple_or_expression(false));
    adopt(*node, take_name("if") ? expression() : nullptr);
    if (take_name("recursive")) node->text = kRecursive;
    end_block();
    node->body = statements({"else", "endfor"});
    if (expect_name() == "else") {
      node->other = body_until("endfor");
    } else {
      end_block();
    }
    return node;
  }

  NodePtr set_statement() {
    NodePtr node = make(Kind::set);
    adopt(*node, target(true));
    if (take_op("=")) {
      adopt(*node, tuple_or_expression());
      end_block();
      return node;
    }
    if (node->children[0]->kind == Kind::list) fail(fmt::format("expected \"=\", found {}", shown()));
    node->kind = Kind::set_block;
    if (is_op("|")) adopt(*node, filters(make(Kind::body_value)));
    node->body = body_until("endset");
    return node;
  }

  /// What stands after "(".
  void parameters(Node& macro) {
    while (!take_op(")")) {
      if (!macro.names.empty()) expect_op(",");
      if (take_op(")")) break;
      macro.names.push_back(expect_name());
      adopt(macro, take_op("=") ? expression() : nullptr);
    }
  }

  void macro_body(Node& macro, std::string_view end) {
    macros_.push_back(&macro.uses);
    macro.body = body_until(end, macro.text);
    macros_.pop_back();
  }

  NodePtr macro_statement() {
    NodePtr node = make(Kind::macro);
    node->text = expect_name();
    expect_op("(");
    parameters(*node);
    macro_body(*node, "endmacro");
    return node;
  }

  /// {% call(x) f(1) %}...{% endcall %}: f gets the body as its macro `caller`.
  NodePtr call_statement() {
    NodePtr node = make(Kind::call_block), caller = make(Kind::macro, "caller");
    if (take_op("(")) parameters(*caller);
    adopt(*node, expression());
    if (node->children[0]->kind != Kind::call) fail("{% call %} needs the call of a macro");
    macro_body(*caller, "endcall");
    node->body.push_back(std::move(caller));
    return node;
  }

  NodePtr with_statement() {
    NodePtr node = make(Kind::with);
    while (here().kind == Token::Kind::name || is_op("(")) {
      adopt(*node, single_target(false));
      expect_op("=");
      adopt(*node, expression());
      if (!take_op(",")) break;
    }
    node->body = body_until("endwith");
    return node;
  }

  /// In a template that nobody extends it stands for its body, which `self` can write again.
  NodePtr block_statement() {
    NodePtr node = make(Kind::block);
    node->text = expect_name();
    while (here().kind == Token::Kind::name) {
      if (is_name("scoped")) node->names.emplace_back("scoped");
      ++at_;  // or "required"
    }
    for (const Node* other : *blocks_)
      if (other->text == node->text) fail(fmt::format("the block \"{}\" is defined twice", node->text));
    blocks_->push_back(node.get());
    node->body = body_until("endblock", node->text);
    return node;
  }

  NodePtr filter_statement() {
    NodePtr node = make(Kind::filter_block);
    adopt(*node, filter(make(Kind::body_value)));
    node->children[0] = filters(std::move(node->children[0]));
    node->body = body_until("endfilter");
    return node;
  }

  std::vector<const Node*>* blocks_ = nullptr;
};

}  // namespace

void MacroNames::note(std::string_view name) {
  varargs |= name == "varargs";
  kwargs |= name == "kwargs";
  caller |= name == "caller";
}

Template parse(std::string_view source, int max_depth) { return Parser(lex(source), max_depth).run(); }

}  // namespace ingot::text::jinja
