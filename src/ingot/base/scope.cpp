#include "ingot/base/scope.h"

#include <array>
#include <limits>
#include <string>

#include "ingot/base/trace.h"

namespace ingot {

namespace inner {
std::atomic<int> scope_watchers{0};
}

namespace {

thread_local Scope* innermost_scope = nullptr;

constexpr std::array<std::string_view, 7> kKindNames{"work",   "step", "module", "op",
                                                     "kernel", "data", "file"};

std::atomic<void (*)(const char*)> push_mark{nullptr};
std::atomic<void (*)()> pop_mark{nullptr};

const Scope* find(ScopeKind kind) {
  const Scope* scope = innermost_scope;
  while (scope != nullptr && scope->kind() != kind) scope = scope->outer();
  return scope;
}

// Where in a module's full name that begins which it adds to the name of the module around it.
std::uint16_t own_part(std::string_view name, const Scope* around) {
  while (around != nullptr && around->kind() != ScopeKind::module) around = around->outer();
  if (around == nullptr) return 0;
  const std::string_view outer = around->name();
  const bool inside = name.size() > outer.size() && name.starts_with(outer) && name[outer.size()] == '.';
  const bool fits = outer.size() < std::numeric_limits<std::uint16_t>::max();
  return inside && fits ? static_cast<std::uint16_t>(outer.size() + 1) : std::uint16_t{0};
}

}  // namespace

std::string_view name(ScopeKind kind) { return kKindNames[static_cast<std::size_t>(kind)]; }

const Scope* Scope::innermost() { return innermost_scope; }

void Scope::open(ScopeKind kind, std::string_view name, std::int64_t number) {
  if (name.empty()) return;
  kind_ = kind;
  name_ = name;
  number_ = number;
  outer_ = innermost_scope;
  innermost_scope = this;
  open_ = true;
  if (const auto push = push_mark.load(std::memory_order_relaxed); push != nullptr)
    push(std::string(name).c_str());
  begin_ = trace::now();
}

void Scope::close() {
  if (trace::active()) {
    trace::add({.kind = kind_,
                .name = name_,
                .shown_from = kind_ == ScopeKind::module ? own_part(name_, outer_) : std::uint16_t{0},
                .begin = begin_,
                .end = trace::now(),
                .number = number_,
                .details = details_});
  }
  if (const auto pop = pop_mark.load(std::memory_order_relaxed); pop != nullptr) pop();
  innermost_scope = outer_;
}

std::string_view current_module() {
  const Scope* scope = find(ScopeKind::module);
  return scope != nullptr ? scope->name() : std::string_view{};
}

std::int64_t current_step() {
  const Scope* scope = find(ScopeKind::step);
  return scope != nullptr ? scope->number() : Scope::kNoNumber;
}

void set_scope_marks(const ScopeMarks& marks) {
  push_mark.store(marks.push);
  pop_mark.store(marks.pop);
  static const ScopeWatch watch;
}

}  // namespace ingot
