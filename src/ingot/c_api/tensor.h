#pragma once

#include "ingot/c_api/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Element types.
typedef int32_t IngotDtype;
enum {
  INGOT_F32 = 0,
  INGOT_F64 = 1,
  INGOT_F16 = 2,     ///< IEEE 754 binary16
  INGOT_BF16 = 3,    ///< the upper half of an f32
  INGOT_F8E4M3 = 4,  ///< OCP 8-bit floats: E4M3 to 448, E5M2 to 57344
  INGOT_F8E5M2 = 5,
  INGOT_I64 = 6,
  INGOT_I32 = 7,
  INGOT_I16 = 8,
  INGOT_I8 = 9,
  INGOT_U8 = 10,
  INGOT_BOOL = 11  ///< one byte, 0 or 1
};
/// "f32", "bf16", ...; "unknown" for a number that is not a dtype. A constant of the library.
INGOT_API const char* ingot_dtype_name(IngotDtype dtype);
/// Bytes of one element; 0 for a number that is not a dtype.
INGOT_API size_t ingot_dtype_size(IngotDtype dtype);

/// Tensors have at most this many axes.
#define INGOT_MAX_RANK 6

/// A handle on an n-dimensional array. Reading one from several threads at once is safe; writing its memory
/// while another thread reads it is not.
typedef struct IngotTensor IngotTensor;

/// Called once, when the last tensor over a caller's memory goes, by the thread that closes it.
typedef void (*IngotDeleter)(void* user);

/// Zeros. shape: [rank] sizes, outermost first; `rank` 0 is a scalar. `device`: "cpu", "cuda:0"; NULL: the
/// CPU.
INGOT_API IngotStatus ingot_tensor_zeros(const int64_t* shape, int32_t rank, IngotDtype dtype,
                                         const char* device, IngotTensor** out);
/// A copy of host values, row-major. `bytes` has to be the product of the sizes times the dtype's size.
INGOT_API IngotStatus ingot_tensor_from(const void* data, size_t bytes, const int64_t* shape, int32_t rank,
                                        IngotDtype dtype, const char* device, IngotTensor** out);
/// The caller's own memory, not copied: on `device`, aligned to the dtype's size. strides: [rank] elements
/// from one index of an axis to the next, 0 or more; NULL: row-major. `deleter` (may be NULL) gets `user`
/// when nothing uses the memory any more; if the call fails, it does not.
INGOT_API IngotStatus ingot_tensor_view(void* data, const int64_t* shape, const int64_t* strides,
                                        int32_t rank, IngotDtype dtype, const char* device,
                                        IngotDeleter deleter, void* user, IngotTensor** out);
/// Closes the handle; its memory goes with the last tensor over it. NULL is allowed.
INGOT_API IngotStatus ingot_tensor_close(IngotTensor* tensor);

/// What a tensor is.
typedef struct IngotTensorInfo {
  IngotDtype dtype;
  int32_t rank;
  int64_t shape[INGOT_MAX_RANK];
  int64_t strides[INGOT_MAX_RANK];  ///< in elements
  int64_t numel;                    ///< number of elements
  uint64_t nbytes;                  ///< of the elements, row-major
  void* data;             ///< the first element, in the device's memory; valid while the handle is open
  const char* device;     ///< "cpu", "cuda:0"; the library's
  int32_t is_contiguous;  ///< 1: row-major without gaps
} IngotTensorInfo;

/// *info has `size` bytes: sizeof(IngotTensorInfo).
INGOT_API IngotStatus ingot_tensor_info(const IngotTensor* tensor, IngotTensorInfo* info, size_t size);
/// Copies the elements to the host, row-major, whatever the strides and the device; waits for them. `bytes`
/// has to be the tensor's nbytes.
INGOT_API IngotStatus ingot_tensor_read(const IngotTensor* tensor, void* to, size_t bytes);
/// Sets the elements from host values, row-major; they are copied on return. `bytes` has to be the tensor's
/// nbytes.
INGOT_API IngotStatus ingot_tensor_write(IngotTensor* tensor, const void* from, size_t bytes);

/// Copies that are new tensors: of the same dtype and device; converted (rounded to nearest even); on another
/// device.
INGOT_API IngotStatus ingot_tensor_clone(const IngotTensor* tensor, IngotStream* stream, IngotTensor** out);
INGOT_API IngotStatus ingot_tensor_to_dtype(const IngotTensor* tensor, IngotDtype dtype, IngotStream* stream,
                                            IngotTensor** out);
INGOT_API IngotStatus ingot_tensor_to_device(const IngotTensor* tensor, const char* device,
                                             IngotTensor** out);
/// Writes `from` into the memory of `to`, of the same shape and device; converts where dtypes differ.
INGOT_API IngotStatus ingot_tensor_copy(IngotTensor* to, const IngotTensor* from, IngotStream* stream);

/// Views: they share the tensor's memory, which lives as long as any of them. Negative axes count from the
/// last.
///
/// Another shape with as many elements, row-major; one size may be -1, what is left. Copies where the strides
/// do not allow a view.
INGOT_API IngotStatus ingot_tensor_reshape(const IngotTensor* tensor, const int64_t* shape, int32_t rank,
                                           IngotTensor** out);
/// Elements start, start + step, ... below `stop` of one axis. As in Python: negative ones count from its
/// end, and both are limited to it. step > 0.
INGOT_API IngotStatus ingot_tensor_slice(const IngotTensor* tensor, int32_t axis, int64_t start, int64_t stop,
                                         int64_t step, IngotTensor** out);
/// Element `index` of an axis, which goes away.
INGOT_API IngotStatus ingot_tensor_select(const IngotTensor* tensor, int32_t axis, int64_t index,
                                          IngotTensor** out);
/// Two axes exchanged.
INGOT_API IngotStatus ingot_tensor_transpose(const IngotTensor* tensor, int32_t a, int32_t b,
                                             IngotTensor** out);
/// Axes of size 1 repeated to `shape`, new axes in front. The result may not be written to.
INGOT_API IngotStatus ingot_tensor_broadcast(const IngotTensor* tensor, const int64_t* shape, int32_t rank,
                                             IngotTensor** out);

struct DLManagedTensor;
/// The tensor as DLPack's struct (dlpack/dlpack.h, 0.6 and later), without a copy. Its deleter, which the
/// receiver calls, lets the memory go; the handle may be closed before. INGOT_NOT_IMPLEMENTED for 8-bit
/// floats, which it has no name for; bool becomes u8.
INGOT_API IngotStatus ingot_tensor_to_dlpack(const IngotTensor* tensor, struct DLManagedTensor** out);
/// A tensor over the memory of a DLManagedTensor, without a copy. It takes the struct over: the deleter runs
/// with the last tensor over that memory. If the call fails, the struct is still the caller's.
INGOT_API IngotStatus ingot_tensor_from_dlpack(struct DLManagedTensor* managed, IngotTensor** out);

#ifdef __cplusplus
}
#endif
