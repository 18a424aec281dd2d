#pragma once

#include <stddef.h>  // NOLINT(modernize-deprecated-headers): C reads this header
#include <stdint.h>  // NOLINT(modernize-deprecated-headers)

#ifdef __cplusplus
extern "C" {
#endif

/// Before every function of the C API.
#if defined(__GNUC__)
#define INGOT_API __attribute__((visibility("default")))
#else
#define INGOT_API
#endif

/// What a call returns: INGOT_OK, or what kind of error; ingot_last_error() says the rest. A call
/// that fails has no effect beyond what its description says, and sets its results to NULL or 0.
typedef int32_t IngotStatus;
enum {
  INGOT_OK = 0,
  INGOT_ERROR = 1,                 ///< none of the others
  INGOT_INVALID_ARGUMENT = 2,      ///< a null pointer, a constant that is not known, a negative size
  INGOT_INVALID_HANDLE = 3,        ///< closed already, of another type, or never given out
  INGOT_BUSY = 4,                  ///< another thread uses this handle, which takes one at a time
  INGOT_INVALID_CONFIG = 5,        ///< `key` names the setting
  INGOT_SHAPE_MISMATCH = 6,        ///< `expected` and `actual` are the shapes
  INGOT_DIMENSION_MISMATCH = 7,    ///< a rank, an axis or a size
  INGOT_DEVICE_NOT_AVAILABLE = 8,  ///< `device` names it
  INGOT_DEVICE_MISMATCH = 9,       ///< operands on different devices
  INGOT_OUT_OF_MEMORY = 10,
  INGOT_KERNEL_ERROR = 11,        ///< no kernel for this dtype and device, or one failed
  INGOT_NOT_IMPLEMENTED = 12,     ///< known, and not there yet
  INGOT_IO_ERROR = 13,            ///< `file` could not be read or written
  INGOT_FORMAT_ERROR = 14,        ///< `file` does not hold what its format allows, at byte `offset`
  INGOT_NON_FINITE = 15,          ///< a NaN or an infinity where none may be
  INGOT_QUEUE_FULL = 16,          ///< more requests wait than may; try again later
  INGOT_ILLEGAL_ACTION = 17,      ///< the rules of a game do not allow it
  INGOT_TRIAL_LOST = 18,          ///< a study gave the trial to another worker
  INGOT_DATA_ERROR = 19,          ///< a user's table or data: `file`, line `offset`, column `key`
  INGOT_COMMUNICATION_ERROR = 20  ///< other ranks of a run did not come, or MPI is not there
};

/// "ok", "shape_mismatch", ...; "unknown" for a number that is not a status. A constant of the library.
INGOT_API const char* ingot_status_name(IngotStatus status);

/// What went wrong. Strings that do not apply are NULL. The library owns all of it.
typedef struct IngotError {
  IngotStatus status;
  const char* kind;     ///< stable name: "shape_mismatch"; finer than `status` where that is INGOT_ERROR
  const char* message;  ///< one sentence: what was found, what was expected, what to do
  const char* call;     ///< the function that failed: "ingot_matmul"
  const char* file;     ///< path or address
  int64_t offset;       ///< bytes from the start of `file`; -1 where not known
  const char* key;  ///< dotted path of a setting ("optimizer.learning_rate"), field of a format, or argument
  const char* device;      ///< "cuda:0"
  const int64_t* expected; /**< a shape */
  int32_t expected_rank;
  const int64_t* actual; /**< a shape */
  int32_t actual_rank;
} IngotError;

/// The last failure of a call on this thread; status INGOT_OK where none has failed yet. Calls that succeed
/// leave it as it is. Never NULL; what it points to changes with the next failure on this thread.
INGOT_API const IngotError* ingot_last_error(void);

/// "0.1.0", the library's version. A constant of the library.
INGOT_API const char* ingot_version(void);

/// Frees what a call gave out as `char*`, `int32_t*` or another array "to be freed with ingot_free". NULL is
/// allowed.
INGOT_API void ingot_free(void* memory);

/// Handles that are open in this process: 0 when everything was closed. For tests.
INGOT_API int64_t ingot_open_handles(void);

#ifdef __cplusplus
}
#endif
