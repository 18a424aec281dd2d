#include "tests/emulated_gpu/race_check.h"

#if defined(INGOT_CHECKS_RACES)

#include <sanitizer/tsan_interface.h>

extern "C" {  // in the library, but in no header of it
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
void AnnotateIgnoreWritesBegin(const char* file, int line);
void AnnotateIgnoreWritesEnd(const char* file, int line);
void __tsan_read_range(void* from, unsigned long bytes);
void __tsan_write_range(void* to, unsigned long bytes);
}

namespace ingot::kernels::cuda::emulation {

Racer make_racer() { return __tsan_create_fiber(0); }
Racer this_racer() { return __tsan_get_current_fiber(); }

As::As(Racer racer) : before_(this_racer()) { __tsan_switch_to_fiber(racer, __tsan_switch_to_fiber_no_sync); }
As::~As() { __tsan_switch_to_fiber(before_, __tsan_switch_to_fiber_no_sync); }

Unseen::Unseen() {
  AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
  AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
}
Unseen::~Unseen() {
  AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
  AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
}

void tell(void* point) { __tsan_release(point); }
void learn(void* point) { __tsan_acquire(point); }
void reads(const void* from, std::size_t bytes) {
  if (bytes > 0) __tsan_read_range(const_cast<void*>(from), bytes);
}
void writes(void* to, std::size_t bytes) {
  if (bytes > 0) __tsan_write_range(to, bytes);
}

}  // namespace ingot::kernels::cuda::emulation

#endif
