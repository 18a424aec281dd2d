#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

namespace ingot {

/// A non-owning reference to something callable, for arguments that do not outlive the call.
template <class Signature>
class FunctionRef;

template <class R, class... Args>
class FunctionRef<R(Args...)> {
 public:
  // NOLINTBEGIN(google-explicit-constructor): lambdas convert at the call
  template <class F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, FunctionRef> && std::is_invocable_r_v<R, F&, Args...>)
      FunctionRef(F&& f)
  noexcept
      : object_(const_cast<void*>(static_cast<const void*>(std::addressof(f)))),
        call_([](void* o, Args... args) -> R {
          return (*static_cast<std::remove_reference_t<F>*>(o))(static_cast<Args>(args)...);
        }) {}
  // NOLINTEND(google-explicit-constructor)
  R operator()(Args... args) const { return call_(object_, static_cast<Args>(args)...); }

 private:
  void* object_;
  R (*call_)(void*, Args...);
};

/// Threads that parallel_for may use. Starts as OMP_NUM_THREADS or the number of processors.
int num_threads();
void set_num_threads(int n);

/// While alive, num_threads() is 1 on the calling thread; on others it is what it was.
class OneThread {
 public:
  OneThread();
  ~OneThread();
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

/// True inside a parallel_for body: nested calls run on the calling thread.
bool in_parallel();

/// Calls body(begin, end) on disjoint ranges that cover [0, n), on up to num_threads() threads. A range holds
/// at least `grain` items (but for the last), so work under one grain stays on the calling thread. The split
/// depends only on n, grain and num_threads(). An exception in a body is rethrown here.
void parallel_for(std::int64_t n, std::int64_t grain, FunctionRef<void(std::int64_t, std::int64_t)> body);

/// The same in pieces of `piece` items, on at most one thread per `grain` items: each thread takes its own
/// share from the front, piece by piece, and then what is left of the others' shares. A thread that wakes
/// late or runs slowly thus delays nobody. For bodies whose results do not depend on the split, which differs
/// from run to run.
void parallel_share(std::int64_t n, std::int64_t grain, std::int64_t piece,
                    FunctionRef<void(std::int64_t, std::int64_t)> body);

}  // namespace ingot
