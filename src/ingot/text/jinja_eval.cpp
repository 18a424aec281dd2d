#include "ingot/text/jinja_eval.h"

#include <algorithm>

#include <fmt/format.h>

namespace ingot::text::jinja {

namespace {

using Kind = Node::Kind;

/// Variables of one scope: the template, a loop body, a macro call.
struct Scope {
  std::vector<std::pair<std::string, Value>> variables;
  const Scope* parent = nullptr;

  const Value* find(std::string_view name, Budget& budget) const {
    for (const Scope* scope = this; scope != nullptr; scope = scope->parent) {
      budget.spend(scope->variables.size());
      for (auto it = scope->variables.rbegin(); it != scope->variables.rend(); ++it)
        if (it->first == name) return &it->second;
    }
    return nullptr;
  }
  void set(std::string_view name, Value value, Budget& budget) {
    budget.spend(variables.size());
    for (auto& variable : variables)
      if (variable.first == name) {
        variable.second = std::move(value);
        return;
      }
    variables.emplace_back(std::string(name), std::move(value));
  }
};

enum class Flow { next, break_, continue_ };

class Evaluator {
 public:
  Evaluator(Scope& root, Budget& budget) : root_(root), budget_(budget) {}

  RenderedChat run(const std::vector<NodePtr>& body) {
    RenderedChat chat;
    output_ = &chat.text;
    execute(body, root_, chat.text);
    for (const Block& block : blocks_) {
      if (block.begin > chat.text.size() ||
          chat.text.compare(block.begin, block.text.size(), block.text) != 0) {
        chat.generated.clear();
        break;
      }
      if (!block.text.empty()) chat.generated.push_back({block.begin, block.begin + block.text.size()});
    }
    return chat;
  }

 private:
  // What a generation block wrote, and where: what was written so far, by the macro around it too.
  struct Block {
    std::size_t begin;
    std::string text;
  };

  Flow execute(const std::vector<NodePtr>& body, Scope& scope, std::string& out) {
    for (const NodePtr& node : body) {
      const Flow flow = execute(*node, scope, out);
      if (flow != Flow::next) return flow;
    }
    return Flow::next;
  }

  class Depth {
   public:
    explicit Depth(Budget& budget) : budget_(budget) {
      INGOT_CHECK(--budget_.depth > 0, TemplateError(0, "the template calls itself too deep"));
    }
    ~Depth() { ++budget_.depth; }
    Depth(const Depth&) = delete;
    Depth& operator=(const Depth&) = delete;

   private:
    Budget& budget_;
  };

  void write(std::string& out, std::string_view text) {
    budget_.spend(text.size());
    budget_.check_size(out.size() + text.size());
    out += text;
  }

  void write_value(std::string& out, const Value& value) {
    if (value.is_string()) {
      write(out, value.string());
    } else {
      write(out, to_text(value, budget_));
    }
  }

  Flow execute(const Node& node, Scope& scope, std::string& out) {
    const Depth depth(budget_);
    budget_.spend();
    try {
      return execute_checked(node, scope, out);
    } catch (const TemplateError& e) {
      // Whoever knows the line first, names it.
      if (e.line > 0 || node.line == 0) throw;
      throw TemplateError(node.line, e.what());
    }
  }

  Flow execute_checked(const Node& node, Scope& scope, std::string& out) {
    switch (node.kind) {
      case Kind::text:
        write(out, node.text);
        break;
      case Kind::output:
        write_value(out, evaluate(*node.children[0], scope));
        break;
      case Kind::if_:
        return execute(evaluate(*node.children[0], scope).truthy() ? node.body : node.other, scope, out);
      case Kind::for_:
        return loop(node, scope, out);
      case Kind::set:
        assign(node, evaluate(*node.children[0], scope), scope);
        break;
      case Kind::set_block:
        assign(node, rendered(node, scope), scope);
        break;
      case Kind::with:
        return with(node, scope, out);
      case Kind::filter_block:
        write_value(out, rendered(node, scope));
        break;
      case Kind::macro:
        scope.set(node.text, macro(node), budget_);
        break;
      case Kind::generation: {
        const std::size_t begin = out.size();
        const Flow flow = execute(node.body, scope, out);
        budget_.spend(out.size() - begin);
        blocks_.push_back({begin + (&out == output_ ? 0 : output_->size()), out.substr(begin)});
        return flow;
      }
      case Kind::break_:
        return Flow::break_;
      case Kind::continue_:
        return Flow::continue_;
      default:
        throw TemplateError(node.line, "an expression stands where a statement should");
    }
    return Flow::next;
  }

  /// The values do not see each other.
  Flow with(const Node& node, Scope& scope, std::string& out) {
    Scope inner{{}, &scope};
    for (std::size_t i = 0; i < node.names.size(); ++i)
      inner.set(node.names[i], evaluate(*node.children[i], scope), budget_);
    return execute(node.body, inner, out);
  }

  /// The body as a string, through the filters of the tag.
  Value rendered(const Node& node, Scope& scope) {
    Scope inner{{}, &scope};
    std::string text;
    execute(node.body, inner, text);
    if (node.children.empty()) return text;
    Scope with_body{{{std::string(kBody), Value(std::move(text))}}, &scope};
    return evaluate(*node.children[0], with_body);
  }

  void assign(const Node& node, Value value, Scope& scope) {
    if (!node.text.empty()) {
      const Value* target = scope.find(node.names[0], budget_);
      INGOT_CHECK(target != nullptr && target->is_dict() && target->dict().kind == Dict::Kind::name_space,
                  TemplateError(node.line, fmt::format("\"{}\" is no namespace", node.names[0])));
      budget_.spend_items(target->dict().entries.size());
      target->mutable_dict().set(node.text, std::move(value));
      return;
    }
    unpack(node, std::move(value), scope);
  }

  void unpack(const Node& node, Value value, Scope& scope) {
    if (node.names.size() == 1) return scope.set(node.names[0], std::move(value), budget_);
    const List items = to_list(value, budget_);
    INGOT_CHECK(
        items.size() == node.names.size(),
        TemplateError(node.line, fmt::format("expected {} values, got {}", node.names.size(), items.size())));
    for (std::size_t i = 0; i < items.size(); ++i) scope.set(node.names[i], items[i], budget_);
  }

  Flow loop(const Node& node, Scope& scope, std::string& out) {
    List items = to_list(evaluate(*node.children[0], scope), budget_);
    if (node.children[1] != nullptr) {
      List kept;
      for (Value& item : items) {
        Scope inner{{}, &scope};
        unpack(node, item, inner);
        if (evaluate(*node.children[1], inner).truthy()) kept.push_back(std::move(item));
      }
      items = std::move(kept);
    }
    if (items.empty()) return execute(node.other, scope, out);
    const auto count = static_cast<std::int64_t>(items.size());
    for (std::int64_t i = 0; i < count; ++i) {
      budget_.spend(kLoopBytes);
      auto state = std::make_shared<Dict>();
      state->kind = Dict::Kind::loop;
      const auto at = [&](std::int64_t k) {
        return k < 0 || k >= count ? Value(Undefined{"there is no such item"})
                                   : items[static_cast<std::size_t>(k)];
      };
      state->entries = {{"index", i + 1},           {"index0", i},
                        {"revindex", count - i},    {"revindex0", count - i - 1},
                        {"first", i == 0},          {"last", i + 1 == count},
                        {"length", count},          {"previtem", at(i - 1)},
                        {"nextitem", at(i + 1)},    {"depth", std::int64_t{1}},
                        {"depth0", std::int64_t{0}}};
      state->entries.emplace_back("cycle", Function{"cycle", [i](const Arguments& a) -> Value {
                                                      if (a.positional.empty()) return {};
                                                      const auto n =
                                                          static_cast<std::int64_t>(a.positional.size());
                                                      return a.positional[static_cast<std::size_t>(i % n)];
                                                    }});
      Scope inner{{{"loop", Value(std::move(state))}}, &scope};
      unpack(node, items[static_cast<std::size_t>(i)], inner);
      if (execute(node.body, inner, out) == Flow::break_) break;
    }
    return Flow::next;
  }

  /// A macro sees its arguments and the variables of the template, wherever it is defined: a scope further in
  /// may be gone when it is called.
  Value macro(const Node& node) {
    const Node* const definition = &node;
    return Function{node.text, [this, definition](const Arguments& arguments) -> Value {
                      Scope inner{{}, &root_};
                      bind(*definition, arguments, inner);
                      std::string out;
                      const Depth depth(budget_);
                      execute(definition->body, inner, out);
                      return out;
                    }};
  }

  void bind(const Node& node, const Arguments& arguments, Scope& scope) {
    INGOT_CHECK(arguments.positional.size() <= node.names.size(),
                TemplateError(0, fmt::format("macro \"{}\" takes {} arguments, got {}", node.text,
                                             node.names.size(), arguments.positional.size())));
    for (const auto& [name, value] : arguments.named)
      INGOT_CHECK(std::find(node.names.begin(), node.names.end(), name) != node.names.end(),
                  TemplateError(0, fmt::format("macro \"{}\" has no argument \"{}\"", node.text, name)));
    for (std::size_t i = 0; i < node.names.size(); ++i) {
      if (const Value* given = arguments.find(i, node.names[i]); given != nullptr)
        scope.set(node.names[i], *given, budget_);
      else if (node.children[i] != nullptr)
        scope.set(node.names[i], evaluate(*node.children[i], scope), budget_);
      else
        scope.set(node.names[i], Undefined{node.names[i]}, budget_);
    }
  }

  Arguments arguments_of(const Node& node, Scope& scope) {
    Arguments out;
    const std::size_t named_from = node.children.size() - node.names.size();
    for (std::size_t i = 1; i < node.children.size(); ++i) {
      Value value = evaluate(*node.children[i], scope);
      if (i < named_from)
        out.positional.push_back(std::move(value));
      else
        out.named.emplace_back(node.names[i - named_from], std::move(value));
    }
    return out;
  }

  Value evaluate(const Node& node, Scope& scope) {
    const Depth depth(budget_);
    budget_.spend();
    try {
      return evaluate_checked(node, scope);
    } catch (const TemplateError& e) {
      if (e.line > 0) throw;
      throw TemplateError(node.line, e.what());
    }
  }

  Value evaluate_checked(const Node& node, Scope& scope) {
    const auto child = [&](std::size_t i) { return evaluate(*node.children[i], scope); };
    switch (node.kind) {
      case Kind::constant:
        return node.value;
      case Kind::body_value:
        return *scope.find(kBody, budget_);
      case Kind::name: {
        const Value* found = scope.find(node.text, budget_);
        return found != nullptr ? *found : Value(Undefined{node.text});
      }
      case Kind::list: {
        List items;
        for (std::size_t i = 0; i < node.children.size(); ++i) items.push_back(child(i));
        return node.text == kTuple ? Value::tuple(std::move(items)) : Value(std::move(items));
      }
      case Kind::dict:
        return dict(node, scope);
      case Kind::attribute:
        return get_attribute(child(0), node.text, budget_);
      case Kind::item:
        return item(child(0), child(1));
      case Kind::slice:
        return slice(node, scope);
      case Kind::call:
        return call(child(0), arguments_of(node, scope));
      case Kind::filter:
        return filter(node, scope);
      case Kind::test: {
        if (node.text == "defined" || node.text == "undefined") {
          return child(0).is_undefined() == (node.text == "undefined");
        }
        return apply_test(node.text, child(0), arguments_of(node, scope), budget_);
      }
      case Kind::not_:
        return !child(0).truthy();
      case Kind::and_: {
        Value left = child(0);
        return left.truthy() ? child(1) : left;
      }
      case Kind::or_: {
        Value left = child(0);
        return left.truthy() ? left : child(1);
      }
      case Kind::negate:
      case Kind::plus:
        return sign(child(0), node.kind == Kind::negate);
      case Kind::binary:
        return binary_operation(node.text, child(0), child(1), budget_);
      case Kind::compare:
        return compared(node, scope);
      case Kind::condition:
        if (child(1).truthy()) return child(0);
        return node.children[2] != nullptr ? child(2) : Value(Undefined{"the other branch of an \"if\""});
      default:
        throw TemplateError(node.line, "a statement stands where an expression should");
    }
  }

  Value dict(const Node& node, Scope& scope) {
    auto out = std::make_shared<Dict>();
    for (std::size_t i = 0; i < node.children.size(); i += 2) {
      const Value key = evaluate(*node.children[i], scope);
      INGOT_CHECK(key.is_string(), TemplateError(node.line, "the keys of a mapping must be strings"));
      budget_.spend_items(out->entries.size());
      out->set(key.string(), evaluate(*node.children[i + 1], scope));
    }
    return out;
  }

  /// value["name"] also finds what value.name finds, after the items.
  Value item(const Value& value, const Value& key) {
    Value found = get_item(value, key, budget_);
    if (found.is_undefined() && key.is_string() && !value.is_undefined())
      return get_attribute(value, key.string(), budget_);
    return found;
  }

  Value slice(const Node& node, Scope& scope) {
    const auto part = [&](std::size_t i) {
      return node.children[i] != nullptr ? evaluate(*node.children[i], scope) : Value();
    };
    return get_slice(part(0), part(1), part(2), part(3), budget_);
  }

  static Value call(const Value& callee, const Arguments& arguments) {
    if (callee.is_undefined())
      throw TemplateError(0, fmt::format("\"{}\" is undefined", callee.undefined_name()));
    if (!callee.is_function()) throw TemplateError(0, fmt::format("{} cannot be called", callee.type_name()));
    return callee.function().call(arguments);
  }

  Value filter(const Node& node, Scope& scope) {
    const Value value = evaluate(*node.children[0], scope);
    return apply_filter(node.text, value, arguments_of(node, scope), budget_);
  }

  static Value sign(const Value& value, bool negative) {
    INGOT_CHECK(value.is_number(), TemplateError(0, fmt::format("{} has no sign", value.type_name())));
    if (value.is_float()) return negative ? -value.number() : value.number();
    return negative ? static_cast<std::int64_t>(0 - static_cast<std::uint64_t>(value.integer()))
                    : value.integer();
  }

  Value compared(const Node& node, Scope& scope) {
    Value left = evaluate(*node.children[0], scope);
    for (std::size_t i = 0; i < node.names.size(); ++i) {
      Value right = evaluate(*node.children[i + 1], scope);
      if (!compare(node.names[i], left, right)) return false;
      left = std::move(right);
    }
    return true;
  }

  bool compare(const std::string& op, const Value& a, const Value& b) {
    if (op == "==") return equal(a, b, budget_);
    if (op == "!=") return !equal(a, b, budget_);
    if (op == "in") return contains(b, a, budget_);
    if (op == "not in") return !contains(b, a, budget_);
    if (op == "<") return less(a, b, budget_);
    if (op == ">") return less(b, a, budget_);
    return op == "<=" ? !less(b, a, budget_) : !less(a, b, budget_);
  }

  static constexpr std::size_t kLoopBytes = 1024;     // of the variable `loop`, which a template can keep
  static constexpr std::string_view kBody = " body";  // no name of a template can hold a space

  Scope& root_;
  Budget& budget_;
  const std::string* output_ = nullptr;
  std::vector<Block> blocks_;
};

}  // namespace

void Budget::spend(std::size_t bytes) {
  steps -= 1 + static_cast<std::int64_t>(bytes / 32);
  INGOT_CHECK(steps > 0, TemplateError(0, "the template takes too many steps"));
}

void Budget::check_size(std::size_t bytes) const {
  INGOT_CHECK(bytes <= output_bytes,
              TemplateError(0, fmt::format("a text grows larger than {} bytes", output_bytes)));
}

RenderedChat run(const std::vector<NodePtr>& body, std::vector<std::pair<std::string, Value>> variables,
                 Budget& budget) {
  Scope scope{std::move(variables), nullptr};
  return Evaluator(scope, budget).run(body);
}

}  // namespace ingot::text::jinja
