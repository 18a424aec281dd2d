#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ingot/base/parallel.h"
#include "ingot/nn/parameter.h"

namespace ingot {

class ParamVisitor;
struct LinearWeight;
struct ExpertLinear;

template <class M>
concept Module = requires(M& module, ParamVisitor& visitor) {
  module.visit(visitor);
};

/// Sees every parameter of a module, and every weight of a linear layer or embedding, with its full name.
/// Loading, saving, optimizer groups, LoRA, sharding and counting derive from it; a module lists its parts,
/// by the names that it gave its ParamSource:
///
///     void visit(ParamVisitor& v) { v("up_proj", up); v("layers", layers); v("scale", scale); }
class ParamVisitor {
 public:
  virtual ~ParamVisitor() = default;

  /// Absent parameters are skipped.
  void operator()(std::string_view name, Parameter& parameter) {
    if (parameter) parameter_at(path(name), parameter);
  }
  /// The weight itself, quantized or not; then, as parameters, the dense matrix and the adapters' matrices.
  void operator()(std::string_view name, LinearWeight& weight);
  /// The experts themselves; then, as parameters, the dense stack, the biases ("<name>_bias") and the
  /// adapters' stacks.
  void operator()(std::string_view name, ExpertLinear& experts);
  template <Module M>
  void operator()(std::string_view name, M& module) {
    const std::string outer = push(name);
    module.visit(*this);
    prefix_ = outer;
  }
  template <class T>
  void operator()(std::string_view name, std::unique_ptr<T>& part) {
    if (part != nullptr) (*this)(name, *part);
  }
  /// A container of modules or parameters: "name.0", "name.1", ...
  template <class Range>
  requires requires(Range& range) {
    range.begin()->visit(std::declval<ParamVisitor&>());
  } || requires(Range& range) {
    (*range.begin())->visit(std::declval<ParamVisitor&>());
  }
  void operator()(std::string_view name, Range& range) {
    const std::string outer = push(name);
    std::size_t index = 0;
    for (auto& part : range) (*this)(std::to_string(index++), part);
    prefix_ = outer;
  }

 protected:
  /// `name` is full.
  virtual void parameter_at(const std::string& name, Parameter& parameter) = 0;
  virtual void weight_at(const std::string& /*name*/, LinearWeight& /*weight*/) {}
  virtual void experts_at(const std::string& /*name*/, ExpertLinear& /*experts*/) {}

 private:
  std::string path(std::string_view name) const { return prefix_ + std::string(name); }
  std::string push(std::string_view name) {
    std::string outer = prefix_;
    if (!name.empty()) prefix_ = path(name) + ".";
    return outer;
  }
  std::string prefix_;  // "layers.0." or empty
};

/// Any module, for functions that need not be templates.
class ModuleRef {
 public:
  template <Module M>
  ModuleRef(M& module)  // NOLINT(google-explicit-constructor): modules convert at the call
      : object_(std::addressof(module)),
        visit_([](void* object, ParamVisitor& visitor) { static_cast<M*>(object)->visit(visitor); }) {}
  void visit(ParamVisitor& visitor) const { visit_(object_, visitor); }

 private:
  void* object_;
  void (*visit_)(void*, ParamVisitor&);
};

/// Calls `f(full name, parameter)` for every parameter, in the module's order. One that two modules share
/// (tied weights) is seen once, under its first name.
void for_each_parameter(ModuleRef module, FunctionRef<void(const std::string&, Parameter&)> f);
std::vector<Parameter*> parameters(ModuleRef module);
std::vector<std::pair<std::string, Parameter*>> named_parameters(ModuleRef module);
/// Every weight of a linear layer or embedding: what takes adapters.
std::vector<std::pair<std::string, LinearWeight*>> named_weights(ModuleRef module);
/// Every linear layer of experts: what takes adapters, too.
std::vector<std::pair<std::string, ExpertLinear*>> named_experts(ModuleRef module);
/// Elements of all parameters, or of the trainable ones.
std::int64_t count_parameters(ModuleRef module, bool trainable_only = false);
void zero_grad(ModuleRef module);
/// Switches the parameters whose names match the glob ("layers.*.norm.*", `*` for any run of characters);
/// returns how many did.
std::int64_t set_trainable(ModuleRef module, std::string_view glob, bool trainable);

/// Whether all of `text` matches: `*` stands for any run of characters, `?` for one.
bool glob_match(std::string_view glob, std::string_view text);

}  // namespace ingot
