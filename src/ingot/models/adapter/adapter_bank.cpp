#include "ingot/models/adapter/adapter_bank.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/models/adapter/open_adapter.h"
#include "ingot/nn/adapter_launch.h"

namespace ingot {

AdapterBank::AdapterBank(LanguageModel& model, std::size_t most, std::size_t memory)
    : model_(model),
      map_(LanguageModel::weight_map(model.config)),
      parts_({model, map_}),
      most_(most),
      memory_(memory),
      mixes_(!model.config.is_latent() && model.config.num_experts == 0 && !model.config.is_recurrent()) {}

AdapterBank::Known* AdapterBank::find_locked(std::string_view name) const {
  const auto found = std::ranges::find(known_, name, [](const Known& known) { return known.source.name; });
  return found == known_.end() ? nullptr : &*found;
}

AdapterHandle AdapterBank::find(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  Known* known = find_locked(name);
  if (known == nullptr || known->adapter == nullptr) return nullptr;
  known->used = ++uses_;
  auto holder = known->holders.lock();
  if (holder == nullptr) {
    holder = std::make_shared<const std::shared_ptr<BankedAdapter>>(known->adapter);
    known->holders = holder;
  }
  return {holder, holder->get()};
}

std::vector<AdapterHandle> AdapterBank::list() const {
  const std::lock_guard lock(mutex_);
  std::vector<AdapterHandle> list;
  list.reserve(known_.size());
  for (const Known& known : known_)
    if (known.adapter != nullptr) list.push_back(known.adapter);
  return list;
}

std::vector<NamedAdapter> AdapterBank::known() const {
  const std::lock_guard lock(mutex_);
  std::vector<NamedAdapter> all;
  all.reserve(known_.size());
  for (const Known& known : known_) all.push_back(known.source);
  return all;
}

std::optional<NamedAdapter> AdapterBank::evicted(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  const Known* known = find_locked(name);
  if (known == nullptr || known->adapter != nullptr) return std::nullopt;
  return known->source;
}

// Null: unloaded meanwhile, though another may have its name, or in memory.
AdapterBank::Known* AdapterBank::find_evicted_locked(const NamedAdapter& adapter) const {
  Known* known = find_locked(adapter.name);
  const bool same = known != nullptr && known->source.number == adapter.number;
  return same && known->adapter == nullptr ? known : nullptr;
}

void AdapterBank::check_free(const NamedAdapter& adapter) const {
  INGOT_CHECK(find_locked(adapter.name) == nullptr,
              InvalidConfig("adapter", fmt::format("the name '{}' is given twice", adapter.name)));
  INGOT_CHECK(most_ == 0 || known_.size() < most_,
              InvalidConfig("adapter", fmt::format("'{}' would be one more than the {} that may be loaded at "
                                                   "a time; unload another first",
                                                   adapter.name, most_)));
}

// The least recently used first. Those who are held are as if they were not there: their memory cannot be
// had.
void AdapterBank::evict_until_fits() {
  const auto bytes = [&] {
    std::size_t sum = 0;
    for (const Known& known : known_) sum += known.adapter != nullptr ? known.adapter->bytes : 0;
    return sum;
  };
  while (memory_ > 0 && bytes() > memory_) {
    Known* oldest = nullptr;
    for (Known& known : known_) {
      const bool idle = known.adapter != nullptr && known.holders.expired();
      if (idle && (oldest == nullptr || known.used < oldest->used)) oldest = &known;
    }
    // The one used last stays, even if it has too much memory alone.
    if (oldest == nullptr || oldest->used == uses_) return;
    oldest->adapter = nullptr;
  }
}

namespace {

// The model's own weights and its tokenizer are the same for all requests.
void check_switchable(const std::string& path, const AdapterFile& file) {
  for (const auto& [module, tensors] : file.modules) {
    const bool whole = tensors.whole.defined();
    INGOT_CHECK(
        !whole && !tensors.tokens.defined(),
        InvalidConfig("adapter", fmt::format("{} {} '{}', so it cannot be switched while the model is "
                                             "in use: put it on for good with --adapter, or merge it",
                                             path, whole ? "replaces" : "has rows of tokens of", module)));
  }
}

}  // namespace

// Its matrices, as inference wants them; without the lock, as files take time.
AdapterBank::Arrival AdapterBank::read(const NamedAdapter& adapter, std::string identity) {
  std::uint64_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    number = ++read_;
  }
  // Apart from adapters that are always on, and from one of this name that is just leaving.
  const std::string on_model = fmt::format("named:{}:{}", number, adapter.name);
  AdapterFile file = read_adapter_file({.parts = parts_, .map = map_, .config = model_.config}, adapter.path);
  check_switchable(adapter.path, file);
  PeftAdapter read = place_adapter(parts_, map_, std::move(file), on_model);
  for (const auto& [weight, pair] : read.pairs) prepare_for_inference(*pair, *weight);
  auto banked = std::make_shared<BankedAdapter>();
  banked->identity = std::move(identity);
  banked->number = number;
  banked->bytes = read.nbytes();
  banked->on_model = on_model;
  banked->rows = std::make_shared<AdapterRows>();
  for (LowRankAdapter* pair : read.all_pairs()) pair->rows = banked->rows;
  return {.adapter = std::move(banked), .pairs = std::move(read)};
}

void AdapterBank::bring_in(Known& to, Arrival arrival) {
  arrival.adapter->source = to.source;
  to.adapter = arrival.adapter;
  to.used = ++uses_;
  arrived_.push_back(std::move(arrival));
  evict_until_fits();
}

void AdapterBank::load(const NamedAdapter& adapter, std::string identity) {
  {
    const std::lock_guard lock(mutex_);
    check_free(adapter);
  }
  Arrival arrival = read(adapter, std::move(identity));
  const std::lock_guard lock(mutex_);
  check_free(adapter);
  Known& known = known_.emplace_back(Known{.source = adapter, .adapter = nullptr});
  if (known.source.number == 0) known.source.number = loaded_ + 1;
  loaded_ = std::max(loaded_, known.source.number);
  bring_in(known, std::move(arrival));
}

bool AdapterBank::reload(const NamedAdapter& adapter, std::string identity) {
  {
    const std::lock_guard lock(mutex_);
    if (find_evicted_locked(adapter) == nullptr) return false;
  }
  Arrival arrival = read(adapter, std::move(identity));
  const std::lock_guard lock(mutex_);
  Known* known = find_evicted_locked(adapter);
  if (known != nullptr) bring_in(*known, std::move(arrival));
  return known != nullptr;
}

bool AdapterBank::unload(std::string_view name, std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  return std::erase_if(known_, [&](const Known& known) {
           return known.source.name == name && (number == 0 || known.source.number == number);
         }) > 0;
}

void AdapterBank::settle() {
  std::vector<Arrival> arrived;
  std::vector<std::shared_ptr<BankedAdapter>> leaving;
  {
    const std::lock_guard lock(mutex_);  // which nobody can find an adapter without
    evict_until_fits();                  // those that were held a moment ago
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
