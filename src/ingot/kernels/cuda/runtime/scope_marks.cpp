#include "ingot/kernels/cuda/runtime/scope_marks.h"

#include "ingot/base/env.h"
#include "ingot/base/scope.h"

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#define INGOT_NVTX 1
#endif

namespace ingot::kernels::cuda {

void mark_scopes_for_profilers() {
#ifdef INGOT_NVTX
  // A profiler tells NVTX by these where its library is.
  const bool profiled = !first_variable({"NVTX_INJECTION64_PATH", "NSYS_PROFILING_SESSION_ID"}).empty();
  // Environment: INGOT_NVTX=1 | steps, modules, ops and kernels are NVTX ranges; on by itself under Nsight
  // Systems ([Find what is slow](tracing.md))
  if (!env_flag("NVTX").value_or(profiled)) return;
  set_scope_marks({.push = [](const char* name) { static_cast<void>(nvtxRangePushA(name)); },
                   .pop = [] { static_cast<void>(nvtxRangePop()); }});
#endif
}

}  // namespace ingot::kernels::cuda
