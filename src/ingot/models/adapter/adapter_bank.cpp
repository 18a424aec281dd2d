#include "ingot/models/adapter/adapter_bank.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/nn/adapter_launch.h"

namespace ingot {

AdapterBank::AdapterBank(LanguageModel& model, std::size_t most)
    : model_(model),
      map_(LanguageModel::weight_map(model.config)),
      weights_(adapted_weights({model, map_})),
      most_(most),
      mixes_(!model.config.is_latent() && model.config.num_experts == 0 && !model.config.is_recurrent()) {}

AdapterHandle AdapterBank::find_locked(std::string_view name) const {
  const auto found =
      std::ranges::find(known_, name, [](const auto& adapter) { return adapter->source.name; });
  return found == known_.end() ? nullptr : *found;
}

AdapterHandle AdapterBank::find(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  return find_locked(name);
}

std::vector<AdapterHandle> AdapterBank::list() const {
  const std::lock_guard lock(mutex_);
  return {known_.begin(), known_.end()};
}

void AdapterBank::check_free(const std::string& name) const {
  INGOT_CHECK(find_locked(name) == nullptr,
              InvalidConfig("adapter", fmt::format("the name '{}' is given twice", name)));
  INGOT_CHECK(most_ == 0 || known_.size() < most_,
              InvalidConfig("adapter", fmt::format("'{}' would be one more than the {} that may be loaded at "
                                                   "a time; unload another first",
                                                   name, most_)));
}

void AdapterBank::load(const NamedAdapter& adapter, std::string identity) {
  std::uint64_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    check_free(adapter.name);
    number = ++loaded_;
  }
  INGOT_CHECK(is_peft_adapter(adapter.path),
              IoError(adapter.path, "is not an adapter: a directory with adapter_config.json was expected"));
  // Apart from adapters that are always on, and from one of this name that is just leaving.
  const std::string on_model = fmt::format("named:{}:{}", number, adapter.name);
  PeftAdapter read = open_peft_adapter(weights_, map_, adapter.path, on_model);
  INGOT_CHECK(
      read.config.modules_to_save.empty() && read.wholes.empty(),
      InvalidConfig("adapter", fmt::format("{} replaces {} as a whole, so it cannot be switched while the "
                                           "model is in use: put it on for good, or merge it",
                                           adapter.path,
                                           read.config.modules_to_save.empty()
                                               ? "a weight"
                                               : "'" + read.config.modules_to_save.front() + "'")));
  for (const auto& [weight, pair] : read.pairs) prepare_for_inference(*pair, *weight);
  auto banked = std::make_shared<BankedAdapter>();
  *banked = {.source = adapter,
             .identity = std::move(identity),
             .number = number,
             .bytes = read.nbytes(),
             .on_model = on_model,
             .rows = std::make_shared<AdapterRows>()};
  for (const auto& [weight, pair] : read.pairs) pair->rows = banked->rows;
  const std::lock_guard lock(mutex_);
  check_free(adapter.name);
  known_.push_back(banked);
  arrived_.push_back({.adapter = std::move(banked), .pairs = std::move(read)});
}

bool AdapterBank::unload(std::string_view name) {
  const std::lock_guard lock(mutex_);
  return std::erase_if(known_, [&](const auto& adapter) { return adapter->source.name == name; }) > 0;
}

void AdapterBank::settle() {
  std::vector<Arrival> arrived;
  std::vector<std::shared_ptr<BankedAdapter>> leaving;
  {
    const std::lock_guard lock(mutex_);  // which nobody can find an adapter without
    arrived.swap(arrived_);
    for (const auto& adapter : on_model_)
      if (adapter.use_count() == 1) leaving.push_back(adapter);
  }
  for (const auto& adapter : leaving) {
    remove_adapter(model_, adapter->on_model);
    std::erase(on_model_, adapter);
  }
  for (Arrival& arrival : arrived) {
    if (arrival.adapter.use_count() == 1) continue;  // unloaded already
    put_on(std::move(arrival.pairs));
    on_model_.push_back(std::move(arrival.adapter));
  }
}

void AdapterBank::use(std::span<const Part> parts) {
  for (const auto& adapter : on_model_) adapter->rows->set_none();
  if (parts.size() == 1) {
    if (parts.front().adapter != nullptr) parts.front().adapter->rows->set_whole();
    return;
  }
  AdapterRows::Share all, wanted;
  for (const Part& part : parts) {
    all.total += part.tokens;
    wanted.total += part.wanted;
  }
  for (const Part& part : parts) {
    all.own = {.begin = all.own.begin + all.own.count, .count = part.tokens};
    wanted.own = {.begin = wanted.own.begin + wanted.own.count, .count = part.wanted};
    if (part.adapter != nullptr) part.adapter->rows->set(all, wanted);
  }
}

}  // namespace ingot
