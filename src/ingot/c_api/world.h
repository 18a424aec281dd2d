#pragma once

#include "ingot/c_api/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

// The processes (ranks) of one run, started together by mpirun, srun or the like; a process that was started
// alone is the only rank. All ranks make the same calls in the same order, and one call at a time of all
// below: INGOT_BUSY to a second thread. A rank that waits for longer than the time-out gets
// INGOT_COMMUNICATION_ERROR, whose message names the ranks that did not come.

typedef struct IngotWorldInfo {
  int32_t rank, size;
  int32_t local_rank, local_size;  ///< among the processes of this machine
} IngotWorldInfo;
/// Loads MPI where a launcher started the process; INGOT_COMMUNICATION_ERROR where it is not installed.
INGOT_API IngotStatus ingot_world_info(IngotWorldInfo* info, size_t size);
/// Seconds that a call may wait for other ranks; 0: for ever. 1800 at first.
INGOT_API IngotStatus ingot_world_set_timeout(double seconds);
/// Waits until every rank is here.
INGOT_API IngotStatus ingot_world_barrier(void);
/// Replaces the values of a tensor by their sums over all ranks: f32, contiguous, of equal shape everywhere,
/// on any device (a GPU's go through the host). All ranks get equal bits; other numbers of ranks may give
/// others.
INGOT_API IngotStatus ingot_all_reduce(IngotTensor* tensor);
/// Replaces the values of a tensor by those of rank `root`: any dtype, contiguous, of equal shape everywhere.
INGOT_API IngotStatus ingot_broadcast(IngotTensor* tensor, int32_t root);

#ifdef __cplusplus
}
#endif
