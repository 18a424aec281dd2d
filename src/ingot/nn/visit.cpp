#include "ingot/nn/visit.h"

#include <unordered_set>

#include "ingot/nn/expert_linear.h"
#include "ingot/nn/linear_weight.h"

namespace ingot {
namespace {

class Caller final : public ParamVisitor {
 public:
  explicit Caller(FunctionRef<void(const std::string&, Parameter&)> f) : f_(f) {}

 protected:
  void parameter_at(const std::string& name, Parameter& parameter) override {
    if (seen_.insert(&parameter).second) f_(name, parameter);
  }

 private:
  FunctionRef<void(const std::string&, Parameter&)> f_;
  std::unordered_set<const Parameter*> seen_;
};

class WeightCollector final : public ParamVisitor {
 public:
  std::vector<std::pair<std::string, LinearWeight*>> found;

 protected:
  void parameter_at(const std::string& /*name*/, Parameter& /*parameter*/) override {}
  void weight_at(const std::string& name, LinearWeight& weight) override {
    found.emplace_back(name, &weight);
  }
};

class ExpertCollector final : public ParamVisitor {
 public:
  std::vector<std::pair<std::string, ExpertLinear*>> found;

 protected:
  void parameter_at(const std::string& /*name*/, Parameter& /*parameter*/) override {}
  void experts_at(const std::string& name, ExpertLinear& experts) override {
    found.emplace_back(name, &experts);
  }
};

void visit_adapters(ParamVisitor& v, const AdapterList& adapters) {
  for (const auto& adapter : adapters) {
    v(adapter->name + ".lora_A", adapter->a);
    v(adapter->name + ".lora_B", adapter->b);
    v(adapter->name + ".lora_magnitude_vector", adapter->magnitude);
  }
}

}  // namespace

void ParamVisitor::operator()(std::string_view name, LinearWeight& weight) {
  weight_at(path(name), weight);
  (*this)(name, weight.dense);
  visit_adapters(*this, weight.adapters);
}

void ParamVisitor::operator()(std::string_view name, ExpertLinear& experts) {
  experts_at(path(name), experts);
  (*this)(name, experts.dense);
  (*this)(std::string(name) + "_bias", experts.bias);
  const std::string outer = push(name);
  visit_adapters(*this, experts.adapters);
  prefix_ = outer;
}

std::vector<std::pair<std::string, LinearWeight*>> named_weights(ModuleRef module) {
  WeightCollector collector;
  module.visit(collector);
  return collector.found;
}

std::vector<std::pair<std::string, ExpertLinear*>> named_experts(ModuleRef module) {
  ExpertCollector collector;
  module.visit(collector);
  return collector.found;
}

void for_each_parameter(ModuleRef module, FunctionRef<void(const std::string&, Parameter&)> f) {
  Caller caller(f);
  module.visit(caller);
}

std::vector<Parameter*> parameters(ModuleRef module) {
  std::vector<Parameter*> result;
  for_each_parameter(module, [&](const std::string&, Parameter& p) { result.push_back(&p); });
  return result;
}

std::vector<std::pair<std::string, Parameter*>> named_parameters(ModuleRef module) {
  std::vector<std::pair<std::string, Parameter*>> result;
  for_each_parameter(module, [&](const std::string& name, Parameter& p) { result.emplace_back(name, &p); });
  return result;
}

std::int64_t count_parameters(ModuleRef module, bool trainable_only) {
  std::int64_t count = 0;
  for_each_parameter(module, [&](const std::string&, Parameter& p) {
    if (p.trainable() || !trainable_only) count += p.value.numel();
  });
  return count;
}

void zero_grad(ModuleRef module) {
  for_each_parameter(module, [](const std::string&, Parameter& p) { p.zero_grad(); });
}

std::int64_t set_trainable(ModuleRef module, std::string_view glob, bool trainable) {
  std::int64_t count = 0;
  for_each_parameter(module, [&](const std::string& name, Parameter& p) {
    if (!glob_match(glob, name)) return;
    p.set_trainable(trainable);
    ++count;
  });
  return count;
}

bool glob_match(std::string_view glob, std::string_view text) {
  // On a mismatch, only the last `*` needs to be tried again with one character more: linear memory, no
  // recursion.
  std::size_t g = 0, t = 0, star = std::string_view::npos, star_text = 0;
  while (t < text.size()) {
    if (g < glob.size() && glob[g] == '*') {
      star = g++;
      star_text = t;
    } else if (g < glob.size() && (glob[g] == '?' || glob[g] == text[t])) {
      ++g;
      ++t;
    } else if (star != std::string_view::npos) {
      g = star + 1;
      t = ++star_text;
    } else {
      return false;
    }
  }
  while (g < glob.size() && glob[g] == '*') ++g;
  return g == glob.size();
}

}  // namespace ingot
