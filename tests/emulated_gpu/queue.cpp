#include "tests/emulated_gpu/queue.h"

#include <algorithm>
#include <deque>
#include <mutex>
#include <utility>
#include <vector>

#include "ingot/base/error.h"

namespace ingot::kernels::cuda::emulation {

struct StreamQueue {
  struct Piece {
    Work work;            // null where the stream only waits
    QueuePosition after;  // of another stream
  };
  void* stream = nullptr;
  bool ended = false;  // its address may be that of a new stream
  std::deque<Piece> pieces;
  std::uint64_t executed = 0;

  void run_one() {
    const Work work = std::move(pieces.front().work);
    pieces.pop_front();
    ++executed;
    if (work) work();
  }
};

namespace {

using Queues = std::vector<std::shared_ptr<StreamQueue>>;
Queues& queues = *new Queues;  // lives as long as tensors of static lifetime may
bool deferring = false, others_ahead = false;
// Of all queues, also while work runs: threads take turns. Work may put more into the queues.
std::recursive_mutex& mutex = *new std::recursive_mutex;

bool reached(const QueuePosition& position) {
  return position.queue == nullptr || position.queue->executed >= position.count;
}

bool can_go_on(const StreamQueue& queue) {
  return !queue.pieces.empty() && reached(queue.pieces.front().after);
}

QueuePosition end_of(const std::shared_ptr<StreamQueue>& queue) {
  return {queue, queue->executed + queue->pieces.size()};
}

const std::shared_ptr<StreamQueue>& queue_of(void* stream) {
  const auto found = std::ranges::find_if(
      queues, [&](const auto& queue) { return queue->stream == stream && !queue->ended; });
  if (found != queues.end()) return *found;
  queues.push_back(std::make_shared<StreamQueue>());
  queues.back()->stream = stream;
  return queues.back();
}

// Each stream's work for as long as `may_run`, given the queue, says so.
template <class Condition>
void run_while(Condition may_run) {
  for (bool more = true; more;) {
    more = false;
    for (const auto& queue : queues) {
      while (can_go_on(*queue) && may_run(*queue)) {
        queue->run_one();
        more = true;
      }
    }
  }
}
void run_others(const StreamQueue& but) {
  run_while([&](const StreamQueue& queue) { return &queue != &but; });
}
void end_waits() {
  run_while([](const StreamQueue& queue) { return !queue.pieces.front().work; });
}

void put(void* stream, StreamQueue::Piece piece) {
  const auto& queue = queue_of(stream);
  queue->pieces.push_back(std::move(piece));
  if (!deferring) run_until(end_of(queue));
}

}  // namespace

QueuePosition end_of(void* stream) {
  const std::lock_guard lock(mutex);
  return end_of(queue_of(stream));
}

bool done(const QueuePosition& position) {
  const std::lock_guard lock(mutex);
  end_waits();  // who only waits is done when that is
  return reached(position);
}

// A position that is waited for was there before the wait, so no stream comes back to itself.
void run_until(const QueuePosition& position) {
  const std::lock_guard lock(mutex);
  while (!reached(position)) {
    if (others_ahead) run_others(*position.queue);
    run_until(position.queue->pieces.front().after);
    position.queue->run_one();
  }
}

void run_all() noexcept {
  const std::lock_guard lock(mutex);
  for (const auto& queue : queues) {
    while (!queue->pieces.empty()) {
      try {
        run_until(end_of(queue));
      } catch (const Error&) {
        // Whoever cared has waited.
      }
    }
  }
  std::erase_if(queues, [](const auto& queue) { return queue->ended; });
}

void put_work(void* stream, Work work) {
  const std::lock_guard lock(mutex);
  put(stream, {.work = std::move(work), .after = {}});
}

void put_wait(void* stream, const QueuePosition& position) {
  const std::lock_guard lock(mutex);
  if (!reached(position)) put(stream, {.work = {}, .after = position});
}

void end_stream(void* stream) noexcept {
  const std::lock_guard lock(mutex);
  for (const auto& queue : queues) queue->ended = queue->ended || queue->stream == stream;
  std::erase_if(queues, [](const auto& queue) { return queue->ended && queue->pieces.empty(); });
}

Deferred::Deferred(OtherStreams others) {
  deferring = true;
  others_ahead = others == OtherStreams::ahead;
}
Deferred::~Deferred() {
  deferring = others_ahead = false;
  run_all();
}

}  // namespace ingot::kernels::cuda::emulation
