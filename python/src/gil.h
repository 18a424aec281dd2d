#pragma once

#include <chrono>
#include <thread>

#include <cxxabi.h>
#include <nanobind/nanobind.h>

// Guards of Python's global interpreter lock (GIL). A thread that asks for the lock once the interpreter has
// begun to end never gets it: up to Python 3.13 it is unwound as by pthread_exit, which ends the process
// where a destructor is on the way, and from 3.14 on it sleeps for ever. With these it sleeps in all of them.
namespace ingot::python {

/// Runs `take`, which asks for the GIL.
template <class Take>
auto take_gil(Take take) {
  try {
    return take();
  } catch (abi::__forced_unwind&) {
    for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
  }
}

/// Lets other Python threads run while it lives. Made with the GIL.
class ReleasedGil {
 public:
  ReleasedGil() = default;
  ~ReleasedGil() {
    take_gil([this] { PyEval_RestoreThread(state_); });
  }
  ReleasedGil(const ReleasedGil&) = delete;
  ReleasedGil& operator=(const ReleasedGil&) = delete;

 private:
  PyThreadState* state_ = PyEval_SaveThread();
};

/// Holds the GIL while it lives, in any thread, whether or not the thread has it already.
class AcquiredGil {
 public:
  AcquiredGil() = default;
  ~AcquiredGil() { PyGILState_Release(state_); }
  AcquiredGil(const AcquiredGil&) = delete;
  AcquiredGil& operator=(const AcquiredGil&) = delete;

 private:
  PyGILState_STATE state_ = take_gil([] { return PyGILState_Ensure(); });
};

/// Lets other Python threads run while a call computes.
using ReleaseGil = nanobind::call_guard<ReleasedGil>;

}  // namespace ingot::python
