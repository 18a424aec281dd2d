#include "ingot/infer/kv_pool.h"

#include <algorithm>
#include <unordered_set>

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

}  // namespace

KvPool::KvPool(const LanguageConfig& config, const KvPoolOptions& options)
    : config_(config), options_(options), state_(state_tokens(config, options.dtype)) {
  const KvCache like(config_, 1, options_.dtype, options_.device, 1);
  if (like.is_paged()) page_ = like.page_tokens();
  if (!options_.store.directory.empty())
    store_ = std::make_unique<PromptStore>(options_.store, options_.dtype);
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

bool KvPool::worth_waiting(std::span<const std::int32_t> prompt, const std::string& adapter) const {
  if (options_.idle == 0) return false;
  const std::int64_t known = find(prompt, adapter).tokens;
  return std::ranges::any_of(slots_, [&](const auto& slot) {
    const auto will_hold = static_cast<std::int64_t>(slot->tokens.size());
    return slot->running && slot->adapter == adapter && slot->cache.length() < will_hold &&
           common(prompt, slot->tokens) >= known + kWorthWaiting;
  });
}

std::int64_t KvPool::whole_pages(std::int64_t tokens) const {
  const std::int64_t pages = page_ > 0 ? (tokens + page_ - 1) / page_ * page_ : tokens;
  return options_.context > 0 ? std::max(tokens, std::min(pages, options_.context)) : pages;
}

std::shared_ptr<KvSlot> KvPool::take_over(const Match& match, std::int64_t capacity, std::int64_t expected) {
  KvSlot& slot = *match.slot;
  const std::int64_t has = slot.cache.capacity();
  // Of blocks that it shares and is going to write, it will have copies.
  const std::int64_t shared = page_ * std::ssize(slot.cache.shared_blocks());
  const std::int64_t copies =
      shared > 0 ? std::max<std::int64_t>(0, shared - match.tokens / page_ * page_) : 0;
  if (!make_room(expected - has + copies, &slot)) return nullptr;
  slot.cache.truncate(match.tokens);
  slot.cache.shrink(capacity);
  slot.cache.reserve(capacity);
  return match.slot;
}

// The room that a new cache for so many tokens takes beside the blocks of the one that it begins as.
std::int64_t KvPool::unshared(const Match& match, std::int64_t expected) const {
  const std::int64_t shared = match.slot != nullptr ? match.slot->cache.shareable(match.tokens) : 0;
  return expected + state_ - shared;
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
  const std::int64_t capacity =
      page_ > 0 ? std::min(expected, whole_pages(std::ssize(prompt) + 1)) : expected;
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
  slot->adapter = adapter;
  counts_.queries += static_cast<std::int64_t>(prompt.size());
  counts_.hits += match.tokens;
  if (store_ != nullptr) load(*slot, prompt, reusable);
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
  store_->load(slot.cache, wanted.first(static_cast<std::size_t>(stored)), known, slot.adapter);
  const std::int64_t length = slot.cache.length();
  slot.cache.truncate(std::max(known, length / options_.alignment * options_.alignment));
  counts_.hits += slot.cache.length() - known;
  counts_.disk_hits += slot.cache.length() - known;
}

bool KvPool::grow(KvSlot& slot, std::int64_t need) {
  const std::int64_t has = slot.cache.capacity();
  if (need <= has) return true;
  const std::int64_t most = options_.context > 0 ? options_.context : std::max(need, 2 * has);
  const std::int64_t ample = std::min(most, std::max({need, 2 * has, has + kCacheStep}));
  for (const std::int64_t capacity : {page_ > 0 ? whole_pages(need) : ample, need}) {
    if (!make_room(capacity - has, &slot)) continue;
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
  while (rooms().idle.capacity > options_.idle && evict_oldest(nullptr)) {
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
      for (const void* block : slot->cache.shared_blocks()) counted += seen.insert(block).second ? 0 : page_;
      room.capacity += slot->cache.capacity() + state_ - counted;
      room.held += slot->cache.length() - counted;
    }
  }
  rooms.shared = std::ssize(seen) * page_;
  return rooms;
}

// Free blocks within the budget for so many tokens more, where idle caches but `keep` may go for them.
bool KvPool::make_room(std::int64_t tokens, const KvSlot* keep) {
  if (options_.budget == 0) return true;
  const auto fits = [&] {
    const Rooms now = rooms();
    return now.running.capacity + now.idle.capacity + tokens <= options_.budget;
  };
  while (!fits())
    if (!evict_oldest(keep)) return false;
  return true;
}

bool KvPool::evict_oldest(const KvSlot* keep) {
  auto oldest = slots_.end();
  for (auto it = slots_.begin(); it != slots_.end(); ++it) {
    if ((*it)->running || it->get() == keep) continue;
    if (oldest == slots_.end() || (*it)->used < (*oldest)->used) oldest = it;
  }
  if (oldest == slots_.end()) return false;
  slots_.erase(oldest);
  ++counts_.evictions;
  return true;
}

KvPoolStats KvPool::stats() const {
  KvPoolStats stats = counts_;
  stats.budget = options_.budget;
  const Rooms now = rooms();
  stats.running = now.running.capacity;
  stats.held = now.running.held;
  stats.idle = now.idle.capacity;
  stats.shared = now.shared;
  stats.running_slots = std::ranges::count_if(slots_, [](const auto& slot) { return slot->running; });
  return stats;
}

}  // namespace ingot::infer
