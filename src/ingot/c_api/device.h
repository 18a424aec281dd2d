#pragma once

#include "ingot/c_api/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/// How the library starts. Fill with ingot_initialize_options().
typedef struct IngotInitializeOptions {
  size_t size;          ///< of this struct, as the caller knows it
  const char* backend;  ///< instruction set: "cpu", "cpu-avx2", "cpu-avx512", ...; NULL: the best one
  int32_t threads;      ///< that kernels use; 0: one for each processor
} IngotInitializeOptions;

/// Puts the defaults into *options. `size`: sizeof(IngotInitializeOptions).
INGOT_API IngotStatus ingot_initialize_options(IngotInitializeOptions* options, size_t size);

/// Starts the library by these options; NULL: the defaults. Other calls start it by themselves where this one
/// was not made. Call it before all others, from one thread. INGOT_DEVICE_NOT_AVAILABLE for a backend that
/// this machine lacks.
INGOT_API IngotStatus ingot_initialize(const IngotInitializeOptions* options);

/// What the library logs, to stderr and, if named, to a file (NULL: none) as well. level: "trace", "debug",
/// "info" (the default), "warn", "error" or "off". The environment's INGOT_LOG and INGOT_LOG_FILE win.
INGOT_API IngotStatus ingot_set_log(const char* level, const char* file);

/// A device of this process. The library owns the strings.
typedef struct IngotDeviceInfo {
  const char* device;     ///< how calls name it: "cpu", "cuda:0"
  const char* name;       ///< "NVIDIA H200"
  uint64_t total_memory;  ///< bytes; 0: unknown
  int32_t compute_units;  ///< processors or multiprocessors
  int32_t works_async;    ///< 1: calls put work into a stream and return; 0: it is done when they return
} IngotDeviceInfo;

/// How many devices there are: the CPU, and GPUs. Any thread.
INGOT_API IngotStatus ingot_device_count(int32_t* count);
/// Device `index` of ingot_device_count(). *info has `size` bytes: sizeof(IngotDeviceInfo). Any thread.
INGOT_API IngotStatus ingot_device_info(int32_t index, IngotDeviceInfo* info, size_t size);

/// Bytes. `free` and `total` are the device's, the others those of this process' tensors.
typedef struct IngotMemoryInfo {
  uint64_t free, total;
  uint64_t allocated;  ///< in tensors now
  uint64_t peak;       ///< the most since the start, or since ingot_device_reset_peak()
} IngotMemoryInfo;

/// Memory of a device ("cpu", "cuda", "cuda:1"). *info has `size` bytes: sizeof(IngotMemoryInfo). Any thread.
INGOT_API IngotStatus ingot_device_memory(const char* device, IngotMemoryInfo* info, size_t size);
/// The peak starts again from what is in use. Any thread.
INGOT_API IngotStatus ingot_device_reset_peak(const char* device);
/// Gives memory that is cached and not used back to the system. Any thread.
INGOT_API IngotStatus ingot_device_trim(const char* device);

/// A queue of work on a device, in order. Where a call takes a stream, NULL is the device's default one. On
/// the CPU work is done when a call returns.
typedef struct IngotStream IngotStream;

/// A new stream, to be closed with ingot_stream_close().
INGOT_API IngotStatus ingot_stream_create(const char* device, IngotStream** out);
/// The caller's own stream: `native` is a cudaStream_t, which has to live until ingot_stream_close(). On the
/// CPU it is NULL.
INGOT_API IngotStatus ingot_stream_wrap(const char* device, void* native, IngotStream** out);
/// Waits until the work of the stream is done, and reports errors of that work. NULL is not allowed. Any
/// thread.
INGOT_API IngotStatus ingot_stream_synchronize(IngotStream* stream);
/// Closes the handle; a stream of ingot_stream_create() ends with it, after its work. NULL is allowed.
INGOT_API IngotStatus ingot_stream_close(IngotStream* stream);

/// A point in a stream's work.
typedef struct IngotEvent IngotEvent;

INGOT_API IngotStatus ingot_event_create(const char* device, IngotEvent** out);
/// The event is where the stream's work stands now.
INGOT_API IngotStatus ingot_event_record(IngotEvent* event, IngotStream* stream);
/// Waits until the work before the event is done.
INGOT_API IngotStatus ingot_event_synchronize(IngotEvent* event);
/// Work that is put into `stream` from now on waits for the event, which may be of another stream of the
/// device.
INGOT_API IngotStatus ingot_stream_wait(IngotStream* stream, IngotEvent* event);
/// NULL is allowed.
INGOT_API IngotStatus ingot_event_close(IngotEvent* event);

#ifdef __cplusplus
}
#endif
