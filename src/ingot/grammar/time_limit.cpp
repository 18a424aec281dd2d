#include "ingot/grammar/time_limit.h"

#include <fmt/format.h>

#include "ingot/base/error.h"

namespace ingot::grammar {
namespace {

thread_local CompileTimeLimit* limit_of_thread = nullptr;

}  // namespace

CompileTimeLimit::CompileTimeLimit(std::chrono::milliseconds most)
    : most_(most), until_(std::chrono::steady_clock::now() + most), outer_(limit_of_thread) {
  limit_of_thread = this;
}

CompileTimeLimit::~CompileTimeLimit() { limit_of_thread = outer_; }

void CompileTimeLimit::check() {
  if (limit_of_thread == nullptr || std::chrono::steady_clock::now() < limit_of_thread->until_) return;
  throw InvalidConfig(
      "grammar",
      fmt::format("takes longer than {} s to compile; make it simpler, with fewer alternatives and "
                  "bounded repeats of large parts",
                  std::chrono::duration<double>(limit_of_thread->most_).count()));
}

}  // namespace ingot::grammar
