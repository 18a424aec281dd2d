#include "ingot/infer/kv_pool.h"

#include <algorithm>
#include <unordered_set>
#include <vector>

namespace ingot::infer {
namespace {

// A shorter beginning is read again sooner than kept track of, or waited for.
constexpr std::int64_t kFewTokens = 4, kWorthWaiting = 16;
constexpr std::int64_t kCacheStep = 256;   // tokens that a cache without pages grows by at least
constexpr std::int64_t kReserved = 4096;   // tokens that address space is reserved for at least
constexpr std::int64_t kStateAlone = 256;  // tokens that a state counts as where there are no keys at all

std::int64_t common(std::span<const std::int32_t> a, std::span<const std::int32_t> b) {
  return std::ranges::mismatch(a, b).in1 - a.begin();
}

// A token without keys and values counts as a byte.
std::int64_t bytes_taken(const KvCache& cache) {
  return cache.token_bytes() > 0 ? static_cast<std::int64_t>(cache.nbytes()) : cache.capacity();
}
std::int64_t bytes_used(const KvCache& cache) {
  return cache.token_bytes() > 0 ? static_cast<std::int64_t>(cache.used_bytes()) : cache.length();
}

}  // namespace

KvPool::KvPool(const LanguageConfig& config, const KvPoolOptions& options)
    : config_(config), options_(options), like_(config, 1, options.dtype, options.device, 1) {
  unit_ = std::max<std::int64_t>(1, static_cast<std::int64_t>(like_.token_bytes()));
  state_ = state_tokens(config, options.dtype) * unit_;
  if (like_.is_paged()) page_ = like_.page_tokens();
  if (!options_.store.directory.empty())
    store_ = std::make_unique<PromptStore>(options_.store, options_.dtype);
  // What is stored on disk is whole.
  drops_ = store_ == nullptr && like_.bytes_of(1 << 30, 0) < like_.token_bytes() << 30U;
}

// What a request of so many tokens takes at most, in bytes.
std::int64_t KvPool::cost(std::int64_t tokens) const {
  if (!drops_) return tokens * unit_;
  return static_cast<std::int64_t>(like_.bytes_of(tokens, options_.chunk));
}

std::int64_t KvPool::state_tokens(const LanguageConfig& config, DType dtype) {
  if (!config.is_recurrent()) return 0;
  KvCache one(config, 1, dtype);
  const std::size_t token = one.nbytes(), state = one.state().nbytes();
  return token == 0 ? kStateAlone : static_cast<std::int64_t>((state + token - 1) / token);
}

KvPool::Match KvPool::find(std::span<const std::int32_t> prompt, const std::string& adapter,
                           std::int64_t reusable) const {
  Match best;
  const auto all_but_last = std::min(static_cast<std::int64_t>(prompt.size()) - 1, reusable);
  for (const auto& slot : slots_) {
    if (slot->adapter != adapter) continue;
    const std::int64_t shared = std::min({common(prompt, slot->tokens), slot->cache.length(), all_but_last});
    const std::int64_t known = slot->cache.beginning(shared / options_.alignment * options_.alignment);
    // Of equals an idle one: it may be had without a copy.
    const bool better = known > best.tokens || (known == best.tokens && known > 0 && !slot->running);
    if (known >= kFewTokens && better) best = {slot, known};
  }
  return best;
}

bool KvPool::worth_waiting(std::span<const std::int32_t> prompt, const std::string& adapter,
                           std::int64_t reusable) const {
  if (options_.idle == 0 || config_.is_recurrent()) return false;  // a state goes on at its end alone
  const std::int64_t known = find(prompt, adapter, reusable).tokens;
  return std::ranges::any_of(slots_, [&](const auto& slot) {
    // What it has read of the beginning already find() would have found, unless it was dropped since.
    const std::int64_t begins = std::min(common(prompt, slot->tokens), reusable);
    return slot->running && slot->adapter == adapter && slot->cache.length() < begins &&
           begins >= known + kWorthWaiting;
  });
}

std::int64_t KvPool::whole_pages(std::int64_t tokens) const {
  const std::int64_t step = page_ > 0 ? like_.capacity_step() : 1;
  const std::int64_t pages = (tokens + step - 1) / step * step;
  return options_.context > 0 ? std::max(tokens, std::min(pages, options_.context)) : pages;
}

std::shared_ptr<KvSlot> KvPool::take_over(const Match& match, std::int64_t capacity, std::int64_t expected) {
  KvSlot& slot = *match.slot;
  // Of blocks that it shares and is going to write, it will have copies.
  std::int64_t shared = 0;
  for (const KvCache::SharedBlock& block : slot.cache.shared_blocks())
    shared += static_cast<std::int64_t>(block.bytes);
  const std::int64_t taken = bytes_taken(slot.cache);
  if (shared > 0) {
    const std::int64_t dropped = slot.cache.capacity() * unit_ - taken;
    shared = std::max<std::int64_t>(0, shared + dropped - match.tokens / page_ * page_ * unit_);
  }
  if (!make_room(cost(expected) - taken + shared, &slot)) return nullptr;
  slot.cache.truncate(match.tokens);
  slot.cache.shrink(capacity);
  if (drops_ && !fits((capacity - slot.cache.capacity()) * unit_)) slot.cache.drop_left_behind();
  slot.cache.reserve(capacity);
  return match.slot;
}

// The bytes that a new cache for so many tokens takes beside the blocks of the one that it begins as.
std::int64_t KvPool::unshared(const Match& match, std::int64_t expected) const {
  const std::size_t shared = match.slot != nullptr ? match.slot->cache.shareable(match.tokens) : 0;
  // What is shared counts all tokens of sliding layers, the cost those of a window alone.
  const std::int64_t rest = cost(expected - match.tokens);
  return std::max(cost(expected) - static_cast<std::int64_t>(shared), rest) + state_;
}

std::shared_ptr<KvSlot> KvPool::make_slot(const Match& match, std::int64_t capacity, std::int64_t expected) {
  if (!make_room(unshared(match, expected), match.slot.get())) return nullptr;
  const std::int64_t most = std::min(options_.context, std::max(kReserved, 2 * expected));
  auto slot = std::make_shared<KvSlot>(
      KvSlot{.cache = KvCache(config_, capacity, options_.dtype, options_.device, page_ > 0 ? most : 0),
             .tokens = {}});
  if (match.slot != nullptr) slot->cache.copy_beginning(match.slot->cache, match.tokens);
  slots_.push_back(slot);
  return slot;
}

std::shared_ptr<KvSlot> KvPool::acquire(std::span<const std::int32_t> prompt, std::int64_t expected,
                                        const std::string& adapter, std::int64_t reusable) {
  const Match match = options_.idle > 0 ? find(prompt, adapter, reusable) : Match{};
  // Blocks that a sequence is expected to need have to be free, lest what is admitted is soon preempted.
  const std::int64_t capacity = page_ > 0 ? std::min(expected, whole_pages(match.tokens)) : expected;
  // A cache that goes on as the prompt does is taken over. Of one that is being written, or whose larger part
  // another prompt may want, the beginning is shared or copied where both fit.
  const bool idle = match.slot != nullptr && !match.slot->running;
  const bool over = idle && (2 * match.tokens >= match.slot->cache.length() ||
                             !make_room(unshared(match, expected), match.slot.get()));
  const std::shared_ptr<KvSlot> slot =
      over ? take_over(match, capacity, expected) : make_slot(match, capacity, expected);
  if (slot == nullptr) return nullptr;
  if (match.slot != nullptr) match.slot->used = ++uses_;
  slot->tokens.assign(prompt.begin(), prompt.end());
  slot->promised = std::min(expected, whole_pages(std::ssize(prompt) + 1));
  slot->adapter = adapter;
  counts_.queries += static_cast<std::int64_t>(prompt.size());
  counts_.hits += match.tokens;
  if (store_ != nullptr) {
    try {
      load(*slot, prompt, reusable);
    } catch (...) {  // nobody has the slot
      std::erase(slots_, slot);
      throw;
    }
  }
  slot->running = true;
  slot->used = ++uses_;
  return slot;
}

// What the disk has of a prompt beyond what the slot holds of it.
void KvPool::load(KvSlot& slot, std::span<const std::int32_t> prompt, std::int64_t reusable) {
  const std::int64_t known = slot.cache.length();
  const auto wanted = prompt.first(std::min(prompt.size() - 1, static_cast<std::size_t>(reusable)));
  const std::int64_t stored = store_->find(wanted, slot.adapter) / options_.alignment * options_.alignment;
  if (stored < known + kWorthWaiting) return;
  slot.cache.reserve(std::min(slot.promised, whole_pages(stored + 1)));
  store_->load(slot.cache, wanted.first(static_cast<std::size_t>(stored)), known, slot.adapter);
  const std::int64_t length = slot.cache.length();
  slot.cache.truncate(std::max(known, length / options_.alignment * options_.alignment));
  counts_.hits += slot.cache.length() - known;
  counts_.disk_hits += slot.cache.length() - known;
}

bool KvPool::grow(KvSlot& slot, std::int64_t need) {
  if (drops_ && options_.idle == 0) slot.cache.drop_left_behind();
  const std::int64_t has = slot.cache.capacity();
  if (need <= has) return true;
  const std::int64_t most = options_.context > 0 ? options_.context : std::max(need, 2 * has);
  const std::int64_t ample = std::min(most, std::max({need, 2 * has, has + kCacheStep}));
  // While its prompt is read, no more than was promised.
  const std::int64_t pages =
      need <= slot.promised ? std::min(slot.promised, whole_pages(need)) : whole_pages(need);
  for (const std::int64_t capacity : {page_ > 0 ? pages : ample, need}) {
    const auto beyond_promise = [&] {
      return std::max<std::int64_t>(0, (capacity - has) * unit_ - promised_bytes(slot));
    };
    if (drops_ && !fits(beyond_promise())) slot.cache.drop_left_behind();
    if (!make_room(beyond_promise(), &slot)) continue;
    slot.cache.reserve(capacity);
    return true;
  }
  return false;
}

void KvPool::release(const std::shared_ptr<KvSlot>& slot, std::span<const std::int32_t> tokens) {
  const auto cached = static_cast<std::size_t>(slot->cache.length());
  slot->tokens.assign(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(cached));
  slot->running = false;
  slot->used = ++uses_;
  if (store_ != nullptr) store_->store(slot->cache, slot->tokens, slot->adapter);
  if (slot->cache.length() < kFewTokens) std::erase(slots_, slot);
  slot->cache.shrink(whole_pages(slot->cache.length()));
  while (tokens_of(rooms().idle.capacity) > options_.idle) {
    if (!free_oldest(nullptr, /*idle_alone=*/true)) break;
  }
}

// A block that several hold counts once: as one of the first who runs.
KvPool::Rooms KvPool::rooms() const {
  Rooms rooms;
  std::unordered_set<const void*> seen;
  for (const bool running : {true, false}) {
    Room& room = running ? rooms.running : rooms.idle;
    for (const auto& slot : slots_) {
      if (slot->running != running) continue;
      std::int64_t counted = 0;
      for (const KvCache::SharedBlock& shared : slot->cache.shared_blocks()) {
        const auto bytes = static_cast<std::int64_t>(shared.bytes);
        (seen.insert(shared.block).second ? rooms.shared : counted) += bytes;
      }
      room.capacity += state_ - counted;
      room.held -= counted;
      room.capacity += bytes_taken(slot->cache);
      room.held += bytes_used(slot->cache);
    }
  }
  return rooms;
}

// What a prompt that is being read is going to take beside what it has.
std::int64_t KvPool::promised_bytes(const KvSlot& slot) const {
  const bool reads = slot.running && slot.cache.length() < std::ssize(slot.tokens);
  return reads ? std::max<std::int64_t>(0, cost(slot.promised) - bytes_taken(slot.cache)) : 0;
}

// Whether so many bytes more are within the budget.
bool KvPool::fits(std::int64_t bytes) const {
  if (options_.budget == 0) return true;
  const Rooms now = rooms();
  for (const auto& slot : slots_) bytes += promised_bytes(*slot);
  return now.running.capacity + now.idle.capacity + bytes <= options_.budget * unit_;
}

// Free blocks within the budget for so many bytes more, for which others but `keep` may give theirs back.
bool KvPool::make_room(std::int64_t bytes, const KvSlot* keep) {
  while (!fits(bytes)) {
    if (!free_oldest(keep, /*idle_alone=*/false)) return false;
  }
  return true;
}

// The least recently used cache gives back what it has left behind; when it has nothing of that, an idle one
// goes. A cache that was used later stays whole meanwhile: its beginning may be a prompt that many share.
bool KvPool::free_oldest(const KvSlot* keep, bool idle_alone) {
  std::vector<std::shared_ptr<KvSlot>> by_use;
  by_use.reserve(slots_.size());
  for (const auto& slot : slots_)
    if (slot.get() != keep && !(idle_alone && slot->running)) by_use.push_back(slot);
  std::ranges::sort(by_use, {}, &KvSlot::used);
  for (const auto& slot : by_use) {
    if (drops_ && slot->cache.drop_left_behind()) return true;
    if (slot->running) continue;
    std::erase(slots_, slot);
    ++counts_.evictions;
    return true;
  }
  return false;
}

KvPoolStats KvPool::stats() const {
  KvPoolStats stats = counts_;
  stats.budget = options_.budget;
  const Rooms now = rooms();
  stats.running = tokens_of(now.running.capacity);
  stats.held = now.running.held / unit_;
  stats.idle = tokens_of(now.idle.capacity);
  stats.shared = now.shared / unit_;
  stats.running_slots = std::ranges::count_if(slots_, [](const auto& slot) { return slot->running; });
  return stats;
}

}  // namespace ingot::infer
