#include "ingot/grammar/time_limit.h"

#include <fmt/format.h>

#include "ingot/base/error.h"

namespace ingot::grammar {
namespace {

thread_local CompileTimeLimit* limit_of_thread = nullptr;

double seconds(std::chrono::milliseconds time) { return std::chrono::duration<double>(time).count(); }

}  // namespace

CompileTimeLimit::CompileTimeLimit(std::chrono::milliseconds most_worked,
                                   std::chrono::milliseconds most_waited)
    : most_worked_(most_worked),
      most_waited_(most_waited),
      until_(Clock::now() + most_worked),
      outer_(limit_of_thread) {
  limit_of_thread = this;
}

CompileTimeLimit::~CompileTimeLimit() { limit_of_thread = outer_; }

void CompileTimeLimit::check() {
  CompileTimeLimit* limit = limit_of_thread;
  if (limit == nullptr) return;
  if (limit->waited_ >= limit->most_waited_) {
    limit->waited_too_long_ = true;
    throw InvalidConfig("grammar",
                        fmt::format("was not compiled: it waited longer than {} s for those of others; "
                                    "compile it again later",
                                    seconds(limit->most_waited_)));
  }
  INGOT_CHECK(Clock::now() < limit->until_,
              InvalidConfig("grammar", fmt::format("takes longer than {} s to compile; make it simpler, with "
                                                   "fewer alternatives and bounded repeats of large parts",
                                                   seconds(limit->most_worked_))));
}

CompileTimeLimit::Wait::~Wait() {
  if (limit_of_thread == nullptr) return;
  const Clock::duration passed = Clock::now() - begin_;
  limit_of_thread->waited_ += passed;
  limit_of_thread->until_ += passed;
}

}  // namespace ingot::grammar
