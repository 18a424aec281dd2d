#include "ingot/dist/background.h"

#include <utility>

#include "ingot/base/parallel_threads.h"

namespace ingot::dist {

Background::Background(std::size_t most) : most_(most), thread_([this] { loop(); }) {}

Background::~Background() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
    waiting_.clear();
  }
  changed_.notify_all();
  thread_.join();
}

void Background::run(std::function<void()> work) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return waiting_.size() < most_ || failure_ != nullptr; });
  if (failure_ == nullptr) waiting_.push_back(std::move(work));
  changed_.notify_all();
}

void Background::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return waiting_.empty() && !working_; });
  if (failure_ != nullptr) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void Background::abandon() noexcept {
  std::unique_lock lock(mutex_);
  waiting_.clear();
  changed_.notify_all();
  changed_.wait(lock, [&] { return !working_; });
}

void Background::loop() {
  keep_thread_serial();
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return ends_ || !waiting_.empty(); });
    if (ends_) return;
    std::function<void()> work = std::move(waiting_.front());
    waiting_.pop_front();
    working_ = true;
    changed_.notify_all();
    lock.unlock();
    std::exception_ptr failure;
    try {
      work();
    } catch (...) {
      failure = std::current_exception();
    }
    work = nullptr;  // with what it holds
    lock.lock();
    working_ = false;
    if (failure != nullptr) {
      failure_ = failure;
      waiting_.clear();
    }
    changed_.notify_all();
  }
}

}  // namespace ingot::dist
