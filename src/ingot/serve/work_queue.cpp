#include "ingot/serve/work_queue.h"

#include <utility>

#include "ingot/base/parallel_threads.h"
#include "ingot/infer/scheduler.h"

namespace ingot::serve {

WorkQueue::WorkQueue(const WorkQueueOptions& options) : options_(options) {
  threads_.reserve(static_cast<std::size_t>(options_.threads));
  for (int i = 0; i < options_.threads; ++i) threads_.emplace_back([this] { run(); });
  release_threads();  // of the caller, who has loaded the model
}

WorkQueue::~WorkQueue() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void WorkQueue::submit(std::function<void()> work) {
  const std::lock_guard lock(mutex_);
  INGOT_CHECK(waiting_.size() < options_.most_waiting,
              infer::QueueFull(static_cast<std::int64_t>(waiting_.size())));
  waiting_.push_back(std::move(work));
  changed_.notify_one();
}

void WorkQueue::run() {
  while (true) {
    std::function<void()> work;
    {
      std::unique_lock lock(mutex_);
      const auto ready = [this] { return stopping_ || !waiting_.empty(); };
      if (!ready()) release_threads();  // others' loops may need the processors
      changed_.wait(lock, ready);
      if (stopping_) return;
      work = std::move(waiting_.front());
      waiting_.pop_front();
    }
    work();
  }
}

}  // namespace ingot::serve
