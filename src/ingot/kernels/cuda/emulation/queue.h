#pragma once

/// When the emulated device does its work. At first before the call returns, which is quick and names the
/// very call that was wrong. Deferred, it does nothing until the host waits for it, as the slowest card
/// would: memory of the host that was changed too early, or read too early, then shows. Work of all streams
/// runs in the order of its submission.
namespace ingot::kernels::cuda::emulation {

/// While one is alive, work is deferred. What is left runs at its end, which passes errors over.
class Deferred {
 public:
  Deferred();
  ~Deferred();
  Deferred(const Deferred&) = delete;
  Deferred& operator=(const Deferred&) = delete;
};

/// How often the host had to wait, or would have on a card, since the program began.
struct Waits {
  long streams = 0;      ///< for all work of a stream
  long events = 0;       ///< for work before an event that was not done yet
  long host_copies = 0;  ///< copies from or to pageable memory of the host
  long frees = 0;        ///< memory given back to the driver
};
Waits waits();

}  // namespace ingot::kernels::cuda::emulation
