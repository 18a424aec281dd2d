#define _POSIX_C_SOURCE 200809L
#include "check.h"
#include <unistd.h>

/* Set in the processes that this test starts itself. */
static int is_rank(void) { return getenv("INGOT_TEST_RANK") != NULL; }

static void a_process_alone_is_the_only_rank(void) {
  if (is_rank()) return;
  IngotWorldInfo info;
  CHECK_OK(ingot_world_info(&info, sizeof info));
  CHECK(info.rank == 0 && info.size == 1 && info.local_rank == 0 && info.local_size == 1);
  const float values[] = {1, 2, 3};
  const int64_t shape[] = {3};
  float out[3];
  IngotTensor* tensor = NULL;
  CHECK_OK(ingot_tensor_from(values, sizeof values, shape, 1, INGOT_F32, "cpu", &tensor));
  CHECK_OK(ingot_world_barrier());
  CHECK_OK(ingot_all_reduce(tensor));
  CHECK_OK(ingot_broadcast(tensor, 0));
  CHECK_OK(ingot_tensor_read(tensor, out, sizeof out));
  CHECK(memcmp(values, out, sizeof out) == 0);
  CHECK_FAILS(INGOT_INVALID_ARGUMENT, "ranks are 0 to 0", ingot_broadcast(tensor, 1));
  CHECK_FAILS(INGOT_INVALID_ARGUMENT, "seconds", ingot_world_set_timeout(-1));
  CHECK_OK(ingot_tensor_close(tensor));
  CHECK_FAILS(INGOT_INVALID_HANDLE, "", ingot_all_reduce(tensor));
}

static void what_cannot_be_summed_is_a_status(void) {
  if (is_rank()) return;
  const int64_t shape[] = {2, 3};
  IngotTensor *whole = NULL, *matrix = NULL, *transposed = NULL;
  CHECK_OK(ingot_tensor_zeros(shape, 2, INGOT_I64, "cpu", &whole));
  CHECK_OK(ingot_tensor_zeros(shape, 2, INGOT_F32, "cpu", &matrix));
  CHECK_OK(ingot_tensor_transpose(matrix, 0, 1, &transposed));
  CHECK_FAILS(INGOT_KERNEL_ERROR, "f32", ingot_all_reduce(whole));
  CHECK_FAILS(INGOT_DIMENSION_MISMATCH, "contiguous", ingot_all_reduce(transposed));
  CHECK_FAILS(INGOT_DIMENSION_MISMATCH, "contiguous", ingot_broadcast(transposed, 0));
  CHECK_OK(ingot_tensor_close(whole));
  CHECK_OK(ingot_tensor_close(transposed));
  CHECK_OK(ingot_tensor_close(matrix));
}

/* What each rank does that the last test starts. */
static void ranks_sum_and_share(void) {
  if (!is_rank()) return;
  IngotWorldInfo info;
  CHECK_OK(ingot_world_info(&info, sizeof info));
  CHECK(info.size == 3 && info.local_size == 3);
  const float values[] = {(float)info.rank, 1, 0.25F};
  const int64_t shape[] = {3};
  float out[3];
  IngotTensor* tensor = NULL;
  CHECK_OK(ingot_tensor_from(values, sizeof values, shape, 1, INGOT_F32, "cpu", &tensor));
  CHECK_OK(ingot_all_reduce(tensor));
  CHECK_OK(ingot_tensor_read(tensor, out, sizeof out));
  CHECK(out[0] == 3 && out[1] == 3 && out[2] == 0.75F);
  CHECK_OK(ingot_tensor_write(tensor, values, sizeof values));
  CHECK_OK(ingot_broadcast(tensor, 2));
  CHECK_OK(ingot_tensor_read(tensor, out, sizeof out));
  CHECK(out[0] == 2);
  CHECK_OK(ingot_world_barrier());
  CHECK_OK(ingot_tensor_close(tensor));
}

static void three_processes_agree(void) {
  if (is_rank() || system("command -v mpirun > /dev/null") != 0) return;
  char path[1024] = {0}, command[2048];
  CHECK(readlink("/proc/self/exe", path, sizeof path - 1) > 0);
  snprintf(
      command, sizeof command,
      "INGOT_TEST_RANK=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout -k 5 60 mpirun "
      "--oversubscribe --bind-to none --mca mpi_yield_when_idle 1 -n 3 %s ranks_sum_and_share >&2",
      path);
  CHECK(system(command) == 0);
}

const TestCase world_tests[] = {
    {"world: a process alone is the only rank", a_process_alone_is_the_only_rank},
    {"world: what cannot be summed is a status", what_cannot_be_summed_is_a_status},
    {"ranks_sum_and_share", ranks_sum_and_share},
    {"world: three processes agree", three_processes_agree},
    {NULL, NULL},
};
