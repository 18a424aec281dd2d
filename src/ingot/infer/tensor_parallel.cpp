#include "ingot/infer/tensor_parallel.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <exception>
#include <map>
#include <stop_token>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/env.h"
#include "ingot/base/error.h"
#include "ingot/base/fault.h"
#include "ingot/base/log.h"
#include "ingot/base/scope.h"
#include "ingot/dist/agreement.h"
#include "ingot/dist/late_ranks.h"
#include "ingot/dist/mpi_communicator.h"
#include "ingot/dist/shared_memory.h"
#include "ingot/infer/file_identity.h"
#include "ingot/infer/load.h"
#include "ingot/infer/rank_message.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/view.h"

namespace ingot::infer {
namespace {

std::span<float> floats(const Tensor& x) { return {x.data<float>(), static_cast<std::size_t>(x.numel())}; }

class CommunicatorGroup final : public RankGroup {
 public:
  explicit CommunicatorGroup(dist::Communicator& communicator) : communicator_(communicator) {}
  int rank() const override { return communicator_.rank(); }
  int size() const override { return communicator_.size(); }

  Tensor all_reduce(const Tensor& x) const override {
    const Scope scope(ScopeKind::work, "all-reduce");
    fault_point("tensor_parallel.sum");
    const Tensor sum = contiguous(to(x, DType::f32));
    communicator_.all_reduce(floats(sum));
    return to(sum, x.dtype());
  }

  Tensor all_gather_columns(const Tensor& x, std::span<const std::int64_t> borders) const override {
    const Scope scope(ScopeKind::work, "all-gather");
    const std::int64_t own = x.dim(-1), rows = x.numel() / std::max<std::int64_t>(own, 1);
    std::int64_t most = 0;
    for (std::size_t i = 0; i + 1 < borders.size(); ++i) most = std::max(most, borders[i + 1] - borders[i]);
    Tensor mine = contiguous(to(x, DType::f32));
    if (own < most) {  // all send as many bytes
      mine = Tensor::zeros({rows, most}, DType::f32);
      copy_(narrow(mine, 1, 0, own), reshape(contiguous(to(x, DType::f32)), {rows, own}));
    }
    const Tensor parts = Tensor::empty({size(), rows, most}, DType::f32);
    communicator_.all_gather(std::as_bytes(floats(mine)), std::as_writable_bytes(floats(parts)));
    const Shape whole = x.shape().with(x.rank() - 1, borders.back());
    if (rows == 1 && most * size() == borders.back()) return reshape(parts, whole);
    const Tensor all = Tensor::empty({rows, borders.back()}, DType::f32);
    for (int rank = 0; rank < size(); ++rank) {
      const std::int64_t begin = borders[static_cast<std::size_t>(rank)],
                         count = borders[static_cast<std::size_t>(rank) + 1] - begin;
      copy_(narrow(all, 1, begin, count), narrow(select(parts, 0, rank), 1, 0, count));
    }
    return reshape(all, whole);
  }

 private:
  dist::Communicator& communicator_;
};

// What a rank may keep the others waiting in the middle of a pass, which takes each of them as long.
double pass_timeout() {
  // Environment: INGOT_RANK_TIMEOUT | seconds that ranks of one model wait for each other in a pass (20)
  constexpr std::int64_t kUsual = 20, kMost = 86400;
  return static_cast<double>(env_int("RANK_TIMEOUT", 1, kMost).value_or(kUsual));
}

void limit_passes(dist::Communicator& communicator) {
  communicator.set_timeout(pass_timeout());
  communicator.set_timeout_name("INGOT_RANK_TIMEOUT");
}

// This rank's failure, for those that wait for it and for whoever reads its message.
std::string tell_failure(dist::Communicator& communicator, std::string_view why) noexcept {
  communicator.tell_failure(why);
  dist::Waiting at = communicator.position();
  at.failure = why;
  return dist::tell_failed_rank(communicator.rank(), dist::host_name(), at);
}

// Whether the error that is being handled is another rank's failure, which it names: nobody shall read that
// this rank failed, too.
bool names_another_rank() noexcept {
  const std::exception_ptr handled = std::current_exception();
  if (handled == nullptr) return false;
  try {
    std::rethrow_exception(handled);
  } catch (const dist::CommunicationError&) {
    return true;
  } catch (...) {
    return false;
  }
}

enum class Order : std::uint8_t { hidden, logits, end };

// A first piece of one size that tells how long the whole is, and the rest: one broadcast for most orders.
constexpr std::size_t kFirstPiece = 4096;

void send(dist::Communicator& communicator, const RankMessage& message) {
  std::array<std::byte, kFirstPiece> first{};
  const std::size_t length = message.bytes().size(), room = first.size() - sizeof length;
  std::memcpy(first.data(), &length, sizeof length);
  std::copy_n(message.bytes().begin(), std::min(length, room), first.begin() + sizeof length);
  communicator.broadcast(first, 0);
  if (length <= room) return;
  std::vector<std::byte> rest(message.bytes().begin() + static_cast<std::ptrdiff_t>(room),
                              message.bytes().end());
  communicator.broadcast(rest, 0);
}

// Waits as long as it takes: nobody may ask for anything for hours.
RankMessage receive(dist::Communicator& communicator) {
  std::array<std::byte, kFirstPiece> first{};
  const double timeout = communicator.timeout();
  communicator.set_timeout(0);
  communicator.broadcast(first, 0);
  communicator.set_timeout(timeout);
  std::size_t length = 0;
  std::memcpy(&length, first.data(), sizeof length);
  const std::size_t room = first.size() - sizeof length;
  std::vector<std::byte> bytes(length);
  std::copy_n(first.begin() + sizeof length, std::min(length, room), bytes.begin());
  if (length > room) communicator.broadcast(std::span(bytes).subspan(room), 0);
  return RankMessage(std::move(bytes));
}

struct SegmentOrder {
  std::uint64_t cache = 0;
  std::int64_t tokens = 0, unwanted = 0, sequence_length = 0, length = 0;
};

// On the first rank. Caches may tell of their end when the model is gone.
class Leader final : public PassLeader, public CacheJournal {
 public:
  explicit Leader(dist::Communicator& communicator) : communicator_(communicator) {
    limit_passes(communicator);
  }
  ~Leader() override { ending_.request_stop(); }
  Leader(const Leader&) = delete;
  Leader& operator=(const Leader&) = delete;

  void lead_hidden(const Tensor& tokens, std::span<const CacheSegment> segments) override {
    refuse_where_one_failed();
    for (const CacheSegment& segment : segments)
      if (segment.cache->journal_entry().journal() == nullptr) segment.cache->attach(self_.lock());
    RankMessage message;
    message.put(Order::hidden);
    message.put(events_.size());
    message.put(std::span<const CacheEvent>(events_));
    events_.clear();
    message.put(segments.size());
    for (const CacheSegment& s : segments)
      message.put(SegmentOrder{.cache = s.cache->journal_entry().number(),
                               .tokens = s.tokens,
                               .unwanted = s.unwanted,
                               .sequence_length = s.sequence_length,
                               .length = s.cache->length()});
    const Tensor ids = contiguous(to(tokens, DType::i32));
    message.put(ids.numel());
    message.put(
        std::span<const std::int32_t>(ids.data<std::int32_t>(), static_cast<std::size_t>(ids.numel())));
    communicator_.set_activity(fmt::format("pass {}", ++passes_));
    tell(message);
  }

  void lead_logits(const Tensor& hidden) override {
    refuse_where_one_failed();
    const Tensor rows = contiguous(to(hidden, DType::f32));
    RankMessage message;
    message.put(Order::logits);
    message.put(hidden.dtype());
    message.put(rows.numel() / rows.dim(-1));
    message.put(rows.dim(-1));
    message.put(std::span<const float>(floats(rows)));
    tell(message);
  }

  void note(const CacheEvent& event) noexcept override { events_.push_back(event); }

  // The others are in the middle of that pass still, and nothing can be told to them any more. Who asked for
  // it gets the error; then all end, by whoever comes first to it.
  void fail(std::string_view why) noexcept override {
    if (failed_.exchange(true)) return;
    log(LogLevel::error, "ingot::infer",
        (names_another_rank() ? std::string(why) : tell_failure(communicator_, why)) +
            "; all ranks end: start them again");
    ending_ = std::jthread([this](const std::stop_token& stopped) {
      for (int i = 0; i < kAnswerTenths && !stopped.stop_requested(); ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
      if (stopped.stop_requested()) return;  // the error has ended what the model was for
      communicator_.abort(1);
    });
  }

  void end() noexcept {
    if (failed_) return;  // what went wrong is told, and then ends all
    try {
      RankMessage message;
      message.put(Order::end);
      send(communicator_, message);
    } catch (const std::exception& error) {
      log(LogLevel::error, "ingot::infer", fmt::format("ranks could not be told to end: {}", error.what()));
    }
  }

  // Ends the others when the model goes; the caches still have their journal.
  static std::shared_ptr<PassLeader> of_model(dist::Communicator& communicator) {
    const auto leader = std::make_shared<Leader>(communicator);
    leader->self_ = leader;
    return {leader.get(), [leader](PassLeader*) { leader->end(); }};
  }

 private:
  static constexpr int kAnswerTenths = 20;  // of a second, in which the error goes to who asked

  void tell(const RankMessage& message) {
    try {
      send(communicator_, message);
    } catch (const std::exception& error) {
      fail(error.what());
      throw;
    }
  }

  void refuse_where_one_failed() const {
    INGOT_CHECK(!failed_,
                dist::CommunicationError("a pass failed that other ranks are still in: all ranks end"));
  }

  dist::Communicator& communicator_;
  std::weak_ptr<Leader> self_;
  std::vector<CacheEvent> events_;  // since the last pass
  std::int64_t passes_ = 0;
  std::atomic<bool> failed_ = false;  // a pass ended in an error here
  std::jthread ending_;               // the last member: it ends first
};

// On another rank: keeps the caches that the first one has.
class Follower {
 public:
  explicit Follower(const LanguageModel& model) : model_(model) {}

  void hidden(RankMessage& message) {
    std::vector<CacheEvent> events(message.take<std::size_t>());
    message.take(std::span(events));
    for (const CacheEvent& event : events) apply(event);
    std::vector<SegmentOrder> orders(message.take<std::size_t>());
    message.take(std::span(orders));
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(message.take<std::int64_t>()));
    message.take(std::span(tokens));
    std::vector<CacheSegment> segments;
    segments.reserve(orders.size());
    for (const SegmentOrder& order : orders) {
      KvCache& cache = find(order.cache);
      INGOT_CHECK(cache.length() == order.length,
                  Error(fmt::format("a KV cache holds {} tokens here and {} on the first rank",
                                    cache.length(), order.length)));
      segments.push_back({.cache = &cache,
                          .tokens = order.tokens,
                          .unwanted = order.unwanted,
                          .sequence_length = order.sequence_length});
    }
    static_cast<void>(
        model_.hidden(Tensor::from(tokens, {1, std::ssize(tokens)}, model_.device()), segments));
  }

  void logits(RankMessage& message) const {
    const auto dtype = message.take<DType>();
    const auto rows = message.take<std::int64_t>(), width = message.take<std::int64_t>();
    const Tensor hidden = Tensor::empty({rows, width}, DType::f32);
    message.take(floats(hidden));
    static_cast<void>(model_.logits(to(hidden, dtype)));
  }

 private:
  KvCache& find(std::uint64_t number) {
    const auto found = caches_.find(number);
    INGOT_CHECK(found != caches_.end(), Error("the first rank has a KV cache that this one does not"));
    return found->second;
  }

  void apply(const CacheEvent& event) {
    using Kind = CacheEvent::Kind;
    if (event.kind == Kind::made) {
      caches_.try_emplace(event.cache, model_.config, event.tokens, event.dtype, model_.device(), event.most);
      return;
    }
    KvCache& cache = find(event.cache);
    if (event.kind == Kind::freed) caches_.erase(event.cache);
    if (event.kind == Kind::reserved) cache.reserve(event.tokens);
    if (event.kind == Kind::shrunk) cache.shrink(event.tokens);
    if (event.kind == Kind::dropped) cache.drop_left_behind(event.tokens);
    if (event.kind == Kind::copied) cache.copy_beginning(find(event.from), event.tokens);
    if (event.kind == Kind::truncated) cache.truncate(event.tokens);
  }

  const LanguageModel& model_;
  std::map<std::uint64_t, KvCache> caches_;
};

std::string adapters_text(const std::vector<AdapterChoice>& adapters) {
  std::string text = adapters.empty() ? "none" : "";
  for (const AdapterChoice& adapter : adapters)
    text += fmt::format("{}{} ({}) times {}", text.empty() ? "" : ", ", adapter.path,
                        model_digest(adapter.path).substr(0, 12), adapter.weight);
  return text;
}

void check_options(const SessionOptions& options) {
  const auto refuse = [](const char* key, const char* why) {
    throw InvalidConfig(key, fmt::format("is not available with tensor_parallel_size: {}", why));
  };
  if (!options.named_adapters.empty() || options.load_adapters)
    refuse("adapters", "requests cannot choose one; put it on for all of them, or merge it into the model");
  if (options.device != "auto" && options.device != "cpu")
    refuse("device", "ranks compute on processors (device: cpu)");
  if (!options.engine.prompt_store.directory.empty())
    refuse("prompt_cache", "each rank has its part of keys and values alone");
}

}  // namespace

std::shared_ptr<const RankGroup> rank_group(dist::Communicator& communicator) {
  return std::make_shared<CommunicatorGroup>(communicator);
}

void lead(LanguageModel& model, dist::Communicator& communicator) {
  model.leader = Leader::of_model(communicator);
}

void follow(const LanguageModel& model, dist::Communicator& communicator) {
  const NoGrad no_grad;
  limit_passes(communicator);
  Follower follower(model);
  for (std::int64_t passes = 0;;) {
    RankMessage message = receive(communicator);
    const auto order = message.take<Order>();
    if (order == Order::end) return;
    fault_point("tensor_parallel.order");
    if (order == Order::hidden) ++passes;
    communicator.set_activity(fmt::format("pass {}", passes));
    try {
      order == Order::hidden ? follower.hidden(message) : follower.logits(message);
    } catch (const dist::CommunicationError&) {  // another rank's failure, which it names
      throw;
    } catch (const std::exception& error) {
      throw dist::CommunicationError(tell_failure(communicator, error.what()));
    }
  }
}

dist::Communicator& tensor_parallel_ranks(std::int64_t size) {
  dist::Communicator& world = dist::world();
  INGOT_CHECK(
      world.size() == size,
      InvalidConfig("tensor_parallel_size",
                    fmt::format("is {}, and {} process{} started; it has to be their number: mpirun -n {} "
                                "ingot ...",
                                size, world.size(), world.size() == 1 ? " was" : "es were", size)));
  static const std::unique_ptr<dist::Communicator> shared = dist::over_shared_memory(world);
  return shared != nullptr ? *shared : world;
}

std::unique_ptr<LanguageModel> load_split_model(const SessionOptions& options) {
  dist::Communicator& ranks = tensor_parallel_ranks(options.tensor_parallel_size);
  check_options(options);
  const dist::Preparing preparing(ranks);
  dist::check_agreement(
      ranks,
      {{"model", fmt::format("{} ({})", options.model, model_digest(options.model).substr(0, 12))},
       {"format", options.format.empty() ? "as stored" : options.format},
       {"adapters", adapters_text(options.adapters)}},
      "start all ranks with the same model and options");
  fault_point("tensor_parallel.load");
  auto model = load_model(options.model, options.format, {.where = "off"}, kCpu, rank_group(ranks));
  infer_with_adapters(*model, options.adapters);
  ranks.barrier();  // a model that one rank cannot load ends all before the first token
  if (ranks.is_first()) lead(*model, ranks);
  return model;
}

void follow(const SessionOptions& options) {
  const auto model = load_split_model(options);
  follow(*model, tensor_parallel_ranks(options.tensor_parallel_size));
}

}  // namespace ingot::infer
