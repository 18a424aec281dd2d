#include "ingot/serve/work_queue.h"

#include <utility>

#include "ingot/infer/scheduler.h"

namespace ingot::serve {
namespace {

constexpr std::size_t kMostWaiting = 256;

}  // namespace

WorkQueue::WorkQueue() : thread_([this] { run(); }) {}

WorkQueue::~WorkQueue() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void WorkQueue::submit(std::function<void()> work) {
  const std::lock_guard lock(mutex_);
  INGOT_CHECK(waiting_.size() < kMostWaiting, infer::QueueFull(static_cast<std::int64_t>(waiting_.size())));
  waiting_.push_back(std::move(work));
  changed_.notify_all();
}

void WorkQueue::run() {
  while (true) {
    std::function<void()> work;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
      if (stopping_) return;
      work = std::move(waiting_.front());
      waiting_.pop_front();
    }
    work();
  }
}

}  // namespace ingot::serve
