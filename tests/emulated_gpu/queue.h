#pragma once

#include <cstdint>
#include <functional>
#include <memory>

/// When the emulated device does its work. At first before the call returns, which is quick and names the
/// very call that was wrong. Deferred, it does nothing until the host waits for it, as the slowest GPU
/// would: memory of the host that was changed too early, or read too early, then shows. Each stream has a
/// queue of its own and works in that order; only events order two of them.
namespace ingot::kernels::cuda::emulation {

/// What the other streams have done when the host waits for one.
enum class OtherStreams {
  behind,  ///< what that one waits for: who forgets to wait reads too early
  ahead,   ///< all that they can without it: who does not wait before writing writes too early
};

/// While one is alive, work is deferred. What is left runs at its end, which passes errors over.
class Deferred {
 public:
  explicit Deferred(OtherStreams others = OtherStreams::behind);
  ~Deferred();
  Deferred(const Deferred&) = delete;
  Deferred& operator=(const Deferred&) = delete;
};

/// How often the host had to wait, or would have on a GPU, since the program began.
struct Waits {
  long streams = 0;      ///< for all work of a stream
  long events = 0;       ///< for work before an event that was not done yet
  long host_copies = 0;  ///< copies from or to pageable memory of the host
  long frees = 0;        ///< memory given back to the driver
};
Waits waits();

// What the driver makes of its streams.
using Work = std::function<void()>;
struct StreamQueue;
/// A position in the work of a stream, which is there for as long as somebody knows of it.
struct QueuePosition {
  std::shared_ptr<StreamQueue> queue;  ///< null: a position with nothing before it
  std::uint64_t count = 0;             ///< of pieces of work before it
};
/// Behind all that the stream was given so far.
QueuePosition end_of(void* stream);
/// Whether the work before the position is done.
bool done(const QueuePosition& position);
/// Runs the work before the position. An error of it leaves what comes behind for the next call.
void run_until(const QueuePosition& position);
/// Runs the work of all streams and passes errors over.
void run_all() noexcept;
void put_work(void* stream, Work work);
/// What the stream is given from now on comes after the position.
void put_wait(void* stream, const QueuePosition& position);
/// The stream gets no more work; what it has left still runs.
void end_stream(void* stream) noexcept;

}  // namespace ingot::kernels::cuda::emulation
