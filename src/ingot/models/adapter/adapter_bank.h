#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ingot/models/adapter/modules.h"
#include "ingot/models/adapter/peft.h"
#include "ingot/models/adapter/use_adapters.h"
#include "ingot/models/language/decoder.h"

namespace ingot {

/// An adapter that requests choose by its name. It stays on its model as long as anybody holds it.
struct BankedAdapter {
  NamedAdapter source;       ///< with its number
  std::string identity;      ///< tells its content from any other's: what was cached with it is of no other
  std::uint64_t number = 0;  ///< in the order of reading: that of `source`, unless it was read again
  std::size_t bytes = 0;
  std::string on_model;  ///< LowRankAdapter::name
  std::shared_ptr<AdapterRows> rows;
};
using AdapterHandle = std::shared_ptr<const BankedAdapter>;

/// The adapters of a model that requests choose by name. They are loaded and unloaded while the model is in
/// use: settle() and use() by the thread that runs the model, all else by any. Where they have more memory
/// than they may, the least recently used is evicted (LRU), of those that nobody holds: its name is known
/// still, and reload() brings it back into memory.
class AdapterBank {
 public:
  /// Consecutive sequences of one pass that have one adapter, or none.
  struct Part {
    AdapterHandle adapter;
    std::int64_t tokens = 0, wanted = 0;  ///< CacheSegment
  };

  /// The model has to outlive the bank. `most`: adapters at a time, evicted ones among them; `memory`: bytes
  /// of those in memory. 0: any number.
  explicit AdapterBank(LanguageModel& model, std::size_t most = 0, std::size_t memory = 0);

  /// Reads an adapter, which can be found from then on. Throws as read_adapter() does; InvalidConfig for
  /// a name that there is already, evicted or not, for one adapter too many, and for an adapter that replaces
  /// whole modules, which requests cannot choose.
  void load(const NamedAdapter& adapter, std::string identity);
  /// Reads an evicted adapter again, the one of evicted(): it is known by its number. False where it was
  /// unloaded, or is in memory already; another of its name is left alone. Throws as load() does.
  bool reload(const NamedAdapter& adapter, std::string identity);
  /// Lets nobody find it any more; false where there is none of this name, or of this number where one is
  /// given. Its memory is freed by the first settle() after its last holder is gone.
  bool unload(std::string_view name, std::uint64_t number = 0);
  /// Null where there is none, or it is evicted. While the handle lives it stays in memory.
  AdapterHandle find(std::string_view name) const;
  /// Those in memory.
  std::vector<AdapterHandle> list() const;
  /// All, in the order of their loading.
  std::vector<NamedAdapter> known() const;
  /// An adapter that reload() has to read before it can be found.
  std::optional<NamedAdapter> evicted(std::string_view name) const;

  std::size_t most() const { return most_; }  ///< adapters at a time; 0: any number

  /// Puts on the model what was loaded, and takes off it what was unloaded and is not held.
  void settle();
  /// Has each part's rows of the next passes go through its adapter. All sequences of one adapter stand
  /// together; several parts only where mixes().
  void use(std::span<const Part> parts);
  /// Whether rows of several adapters may go through the model in one pass: not where layers see rows in
  /// another order (experts), read weights as one matrix (latent attention) or keep a state.
  bool mixes() const { return mixes_; }

 private:
  struct Arrival {
    std::shared_ptr<BankedAdapter> adapter;
    PeftAdapter pairs;
  };
  struct Known {
    NamedAdapter source;
    std::shared_ptr<BankedAdapter> adapter;                         // null: evicted
    std::weak_ptr<const std::shared_ptr<BankedAdapter>> holders{};  // expired: nobody has it of find()
    std::uint64_t used = 0;                                         // when, as a count of uses
  };
  Known* find_locked(std::string_view name) const;
  Known* find_evicted_locked(const NamedAdapter& adapter) const;
  void check_free(const NamedAdapter& adapter) const;
  Arrival read(const NamedAdapter& adapter, std::string identity);
  void bring_in(Known& to, Arrival arrival);
  void evict_until_fits();

  LanguageModel& model_;
  // What load() knows of the model, which settle() may change meanwhile on another thread.
  const WeightMap map_;
  const AdaptedParts parts_;
  const std::size_t most_;
  const std::size_t memory_;
  const bool mixes_;
  mutable std::mutex mutex_;  // of what follows
  mutable std::vector<Known> known_;
  std::vector<Arrival> arrived_;
  std::uint64_t loaded_ = 0, read_ = 0;  // adapters, so far
  mutable std::uint64_t uses_ = 0;
  std::vector<std::shared_ptr<BankedAdapter>> on_model_;  // of the thread that runs the model
};

}  // namespace ingot
