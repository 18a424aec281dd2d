#include "ingot/text/jinja_eval.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>

#include <fmt/format.h>

namespace ingot::text::jinja {

namespace {

using Kind = Node::Kind;

struct Scope;
using ScopePtr = std::shared_ptr<Scope>;

/// Variables of one scope: the template, a loop body, a macro call. Macros keep the scope they are defined
/// in.
struct Scope : std::enable_shared_from_this<Scope> {
  explicit Scope(ScopePtr parent_, std::vector<std::pair<std::string, Value>> variables_ = {})
      : variables(std::move(variables_)), parent(std::move(parent_)) {}

  std::vector<std::pair<std::string, Value>> variables;
  ScopePtr parent;

  ScopePtr inner() { return std::make_shared<Scope>(shared_from_this()); }
  const Value* find(std::string_view name, Budget& budget) const {
    for (const Scope* scope = this; scope != nullptr; scope = scope->parent.get()) {
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
  Evaluator(ScopePtr root, Budget& budget) : root_(std::move(root)), budget_(budget) {}
  /// Scopes that hold macros, which hold the scopes.
  ~Evaluator() {
    for (const ScopePtr& scope : kept_) scope->variables.clear();
  }
  Evaluator(const Evaluator&) = delete;
  Evaluator& operator=(const Evaluator&) = delete;

  RenderedChat run(const Template& source) {
    RenderedChat chat;
    output_ = &chat.text;
    root_->set("self", self_of(source), budget_);
    execute(source.body, *root_, chat.text);
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
        assign(*node.children[0], evaluate(*node.children[1], scope), scope);
        break;
      case Kind::set_block:
        assign(*node.children[0], rendered(node, 1, scope), scope);
        break;
      case Kind::with:
        return with(node, scope, out);
      case Kind::filter_block:
        write_value(out, rendered(node, 0, scope));
        break;
      case Kind::macro:
        scope.set(node.text, macro(node, scope), budget_);
        break;
      case Kind::call_block:
        call_block(node, scope, out);
        break;
      case Kind::block:
        return execute(node.body, *(node.names.empty() ? root_ : scope.shared_from_this())->inner(), out);
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
    const ScopePtr inner = scope.inner();
    for (std::size_t i = 0; i + 1 < node.children.size(); i += 2)
      assign(*node.children[i], evaluate(*node.children[i + 1], scope), *inner);
    return execute(node.body, *inner, out);
  }

  /// The body as a string, through the filters of the tag where it has a child `filters_at`.
  Value rendered(const Node& node, std::size_t filters_at, Scope& scope) {
    std::string text;
    execute(node.body, *scope.inner(), text);
    if (node.children.size() <= filters_at) return text;
    const ScopePtr with_body = scope.inner();
    with_body->set(kBody, std::move(text), budget_);
    return evaluate(*node.children[filters_at], *with_body);
  }

  void assign(const Node& target, Value value, Scope& scope) {
    if (target.kind == Kind::name) return scope.set(target.text, std::move(value), budget_);
    if (target.kind == Kind::attribute) return assign_attribute(target, std::move(value), scope);
    const List items = to_list(value, budget_);
    INGOT_CHECK(items.size() == target.children.size(),
                TemplateError(target.line, fmt::format("expected {} values, got {}", target.children.size(),
                                                       items.size())));
    for (std::size_t i = 0; i < items.size(); ++i) assign(*target.children[i], items[i], scope);
  }

  void assign_attribute(const Node& target, Value value, Scope& scope) {
    const std::string& name = target.children[0]->text;
    const Value* found = scope.find(name, budget_);
    INGOT_CHECK(found != nullptr && found->is_dict() && found->dict().kind == Dict::Kind::name_space,
                TemplateError(target.line, fmt::format("\"{}\" is not a namespace", name)));
    budget_.spend_items(found->dict().entries.size());
    found->mutable_dict().set(target.text, std::move(value), budget_);
  }

  Flow loop(const Node& node, Scope& scope, std::string& out) {
    return loop_over(node, to_list(evaluate(*node.children[1], scope), budget_), 1, scope, out);
  }

  /// `depth`: 1, and one more in each call of a recursive loop.
  Flow loop_over(const Node& node, List items, std::int64_t depth, Scope& scope, std::string& out) {
    if (node.children[2] != nullptr) {
      List kept;
      for (Value& item : items) {
        const ScopePtr inner = scope.inner();
        assign(*node.children[0], item, *inner);
        if (evaluate(*node.children[2], *inner).truthy()) kept.push_back(std::move(item));
      }
      items = std::move(kept);
    }
    if (items.empty()) return execute(node.other, scope, out);
    const std::shared_ptr<LoopState> state = loop_state(node, depth, scope);
    for (std::size_t i = 0; i < items.size(); ++i) {
      state->move_to(i, items);
      const ScopePtr inner = scope.inner();
      inner->set("loop", Value(state->variable), budget_);
      assign(*node.children[0], items[i], *inner);
      if (execute(node.body, *inner, out) == Flow::break_) break;
    }
    return Flow::next;
  }

  /// The variable `loop`: one for all iterations, whose entries change.
  struct LoopState {
    std::shared_ptr<Dict> variable;
    std::size_t index = 0;
    std::optional<List> last;  // what `changed` was told

    void move_to(std::size_t i, const List& items) {
      index = i;
      const auto at = static_cast<std::int64_t>(i), count = static_cast<std::int64_t>(items.size());
      const Value none(Undefined{"there is no such item"});
      const Value values[] = {at + 1,
                              at,
                              count - at,
                              count - at - 1,
                              i == 0,
                              i + 1 == items.size(),
                              count,
                              i > 0 ? items[i - 1] : none,
                              i + 1 < items.size() ? items[i + 1] : none};
      for (std::size_t k = 0; k < std::size(values); ++k) variable->entries[k].second = values[k];
    }
  };

  std::shared_ptr<LoopState> loop_state(const Node& node, std::int64_t depth, Scope& scope) {
    budget_.spend(kLoopBytes);
    auto state = std::make_shared<LoopState>(LoopState{std::make_shared<Dict>(), 0, {}});
    Dict& variable = *state->variable;
    budget_.namespaces.push_back(state->variable);
    variable.kind = Dict::Kind::object;
    for (const char* name :
         {"index", "index0", "revindex", "revindex0", "first", "last", "length", "previtem", "nextitem"})
      variable.entries.emplace_back(name, Value());
    variable.entries.emplace_back("depth", depth);
    variable.entries.emplace_back("depth0", depth - 1);
    const auto method = [&](std::string_view name, std::function<Value(const Arguments&)> call) {
      variable.entries.emplace_back(name, Function{std::string(name), std::move(call)});
    };
    method("cycle", [state](const Arguments& a) -> Value {
      INGOT_CHECK(!a.positional.empty(), TemplateError(0, "loop.cycle needs an argument"));
      return a.positional[state->index % a.positional.size()];
    });
    method("changed", [this, state](const Arguments& a) -> Value {
      budget_.spend_items(a.positional.size());
      if (state->last.has_value() && equal(Value(*state->last), Value(a.positional), budget_)) return false;
      state->last = a.positional;
      return true;
    });
    if (node.text == kRecursive) {
      const Node* const definition = &node;
      const ScopePtr around = keep(scope);
      method(Dict::kCall, [this, definition, around, depth](const Arguments& a) -> Value {
        INGOT_CHECK(a.positional.size() == 1, TemplateError(0, "a loop is called with what to go through"));
        const Depth nested(budget_);
        std::string text;
        loop_over(*definition, to_list(a.positional[0], budget_), depth + 1, *around, text);
        return text;
      });
    }
    return state;
  }

  ScopePtr keep(Scope& scope) {
    budget_.spend(kLoopBytes);
    return kept_.emplace_back(scope.shared_from_this());
  }

  /// A macro sees its arguments and the variables around its definition.
  Value macro(const Node& node, Scope& scope) {
    const Node* const definition = &node;
    const ScopePtr around = keep(scope);
    return Function{node.text, [this, definition, around](const Arguments& arguments) -> Value {
                      const ScopePtr inner = around->inner();
                      bind(*definition, arguments, *inner);
                      std::string out;
                      const Depth depth(budget_);
                      execute(definition->body, *inner, out);
                      return out;
                    }};
  }

  void bind(const Node& node, const Arguments& arguments, Scope& scope) {
    const std::size_t taken = node.names.size(), given = arguments.positional.size();
    INGOT_CHECK(
        given <= taken || node.uses.varargs,
        TemplateError(0, fmt::format("macro \"{}\" takes {} arguments, got {}", node.text, taken, given)));
    for (std::size_t i = 0; i < taken; ++i) {
      const Value* value = arguments.find(i, node.names[i]);
      scope.set(node.names[i], value != nullptr ? *value : Undefined{node.names[i]}, budget_);
    }
    // Defaults see what was given, and the defaults before them.
    for (std::size_t i = 0; i < taken; ++i)
      if (node.children[i] != nullptr && arguments.find(i, node.names[i]) == nullptr)
        scope.set(node.names[i], evaluate(*node.children[i], scope), budget_);
    if (node.uses.varargs) {
      budget_.spend_items(given);
      const auto rest = arguments.positional.begin() + static_cast<std::ptrdiff_t>(std::min(given, taken));
      scope.set("varargs", Value::tuple(List(rest, arguments.positional.end())), budget_);
    }
    bind_keywords(node, arguments, scope);
  }

  /// What is given by name and has no parameter: the caller, and the others as kwargs.
  void bind_keywords(const Node& node, const Arguments& arguments, Scope& scope) {
    const auto is_parameter = [&](const std::string& name) {
      return std::find(node.names.begin(), node.names.end(), name) != node.names.end();
    };
    auto rest = std::make_shared<Dict>();
    const bool own_caller = node.uses.caller && !is_parameter("caller");
    if (own_caller) scope.set("caller", Undefined{"No caller defined"}, budget_);
    for (const auto& [name, value] : arguments.named) {
      if (is_parameter(name)) continue;
      if (own_caller && name == "caller") {
        scope.set(name, value, budget_);
        continue;
      }
      INGOT_CHECK(node.uses.kwargs,
                  TemplateError(0, fmt::format("macro \"{}\" has no argument \"{}\"", node.text, name)));
      budget_.spend_items(rest->entries.size());
      rest->set(name, value, budget_);
    }
    if (node.uses.kwargs) scope.set("kwargs", Value(std::move(rest)), budget_);
  }

  void call_block(const Node& node, Scope& scope, std::string& out) {
    const Node& call_node = *node.children[0];
    const Value callee = evaluate(*call_node.children[0], scope);
    Arguments arguments = arguments_of(call_node, scope);
    arguments.named.emplace_back("caller", macro(*node.body[0], scope));
    write_value(out, call(callee, arguments));
  }

  /// `self.name()` writes the block of that name.
  Value self_of(const Template& source) {
    auto self = std::make_shared<Dict>();
    self->kind = Dict::Kind::object;
    for (const Node* block : source.blocks)
      self->entries.emplace_back(block->text, Function{block->text, [this, block](const Arguments&) -> Value {
                                                         const Depth depth(budget_);
                                                         std::string text;
                                                         execute(block->body, *root_->inner(), text);
                                                         return text;
                                                       }});
    return self;
  }

  Arguments arguments_of(const Node& node, Scope& scope) {
    Arguments out;
    const std::size_t named_from = node.children.size() - node.names.size();
    for (std::size_t i = 1; i < node.children.size(); ++i) {
      Value value = evaluate(*node.children[i], scope);
      if (i < named_from) {
        out.positional.push_back(std::move(value));
        continue;
      }
      const std::string& name = node.names[i - named_from];
      if (name == "*") {
        for (Value& item : to_list(value, budget_)) out.positional.push_back(std::move(item));
      } else if (name == "**") {
        unpack_keywords(value, out);
      } else {
        add_keyword(name, std::move(value), out);
      }
    }
    return out;
  }

  void unpack_keywords(const Value& value, Arguments& out) {
    INGOT_CHECK(value.is_dict() && value.dict().kind == Dict::Kind::plain,
                TemplateError(0, fmt::format("** needs a mapping, got {}", value.type_name())));
    for (const auto& [key, item] : value.dict().entries) {
      INGOT_CHECK(key.is_string() && key.string().size() <= kLongestName,
                  TemplateError(0, "keywords must be strings, not longer than a name"));
      budget_.spend_strings(2);
      add_keyword(key.string(), item, out);
    }
  }

  void add_keyword(const std::string& name, Value value, Arguments& out) {
    budget_.spend_items(out.named.size());
    for (const auto& given : out.named)
      INGOT_CHECK(given.first != name, TemplateError(0, fmt::format("\"{}\" is given twice", name)));
    out.named.emplace_back(name, std::move(value));
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
        if (found == nullptr) budget_.spend_strings(2);
        return found != nullptr ? *found : Value(Undefined{node.text});
      }
      case Kind::list: {
        budget_.spend_strings(1);
        List items;
        items.reserve(node.children.size());
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
    budget_.spend_strings(1);
    auto out = std::make_shared<Dict>();
    for (std::size_t i = 0; i < node.children.size(); i += 2) {
      Value key = evaluate(*node.children[i], scope);
      budget_.spend_items(out->entries.size());
      out->set(std::move(key), evaluate(*node.children[i + 1], scope), budget_);
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

  Value call(const Value& callee, const Arguments& arguments) {
    if (callee.is_undefined())
      throw TemplateError(0, fmt::format("\"{}\" is undefined", callee.undefined_name()));
    if (callee.is_dict() && callee.dict().kind == Dict::Kind::object)
      if (const Value* function = callee.dict().find(Dict::kCall, budget_))
        return function->function().call(arguments);
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

  ScopePtr root_;
  Budget& budget_;
  std::vector<ScopePtr> kept_;
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

RenderedChat run(const Template& source, std::vector<std::pair<std::string, Value>> variables,
                 Budget& budget) {
  const auto root = std::make_shared<Scope>(nullptr, std::move(variables));
  return Evaluator(root, budget).run(source);
}

}  // namespace ingot::text::jinja
