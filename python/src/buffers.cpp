// Memory that is shared with others: DLPack (PyTorch, JAX, NumPy, CuPy) and Python's buffer protocol. Nothing
// is copied but by asarray() and tensor(), which say so.
#include <memory>

#include "bindings.h"
#include <dlpack/dlpack.h>
#include <nanobind/ndarray.h>

#include "ingot/base/error.h"
#include "ingot/core/dlpack.h"
#include "ingot/ops/cast.h"

namespace ingot::python {
namespace {

constexpr const char* kFresh = "dltensor";
constexpr const char* kUsed = "used_dltensor";

void delete_capsule(PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, kFresh) == 0) return;  // somebody took it
  auto* managed = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule, kFresh));
  if (managed->deleter != nullptr) managed->deleter(managed);
}

nb::object to_capsule(const Tensor& tensor) {
  PyObject* capsule = PyCapsule_New(to_dlpack(tensor), kFresh, delete_capsule);
  if (capsule == nullptr) throw nb::python_error();
  return nb::steal(capsule);
}

nb::tuple dlpack_device(const Tensor& tensor) {
  const Device device = tensor.device();
  INGOT_CHECK(device.is_cpu() || device.is_cuda(),
              NotImplemented("DLPack of memory on " + to_string(device) + "; copy it to the CPU first"));
  return nb::make_tuple(static_cast<int>(device.is_cpu() ? kDLCPU : kDLCUDA), static_cast<int>(device.index));
}

// What the array API standard asks of an array. Capsules are of DLPack's layout without a version, which
// every consumer takes; a `max_version` is met by it.
nb::object dlpack_of(const Tensor& self, nb::handle stream, nb::handle /*max_version*/, nb::handle dl_device,
                     const std::optional<bool>& copy) {
  const Tensor x = self.requires_grad() ? self.detach() : self;
  const nb::tuple own = dlpack_device(x);
  if (x.device().is_cpu() && !stream.is_none()) {
    throw nb::buffer_error("__dlpack__: memory of the CPU has no stream; leave it out");
  }
  if (dl_device.is_none() || dl_device.equal(own)) return to_capsule(copy.value_or(false) ? clone(x) : x);
  if (!copy.value_or(true) || !dl_device.equal(nb::make_tuple(static_cast<int>(kDLCPU), 0))) {
    throw nb::buffer_error(
        "__dlpack__: the tensor is on another device than dl_device; move it there with .to()");
  }
  return to_capsule(to(x, kCpu));
}

// Shares the memory of whatever has __dlpack__, or of a capsule.
Tensor from_dlpack_object(nb::handle source) {
  nb::object capsule = nb::borrow(source);
  if (nb::hasattr(source, "__dlpack__")) capsule = source.attr("__dlpack__")();
  auto* managed = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule.ptr(), kFresh));
  if (managed == nullptr) throw nb::python_error();
  Tensor tensor = from_dlpack(managed);
  PyCapsule_SetName(capsule.ptr(), kUsed);
  return tensor;
}

DType dtype_of_buffer(nb::dlpack::dtype dtype) {
  using Code = nb::dlpack::dtype_code;
  const auto code = static_cast<Code>(dtype.code);
  if (dtype.lanes == 1) {
    if (code == Code::Float && dtype.bits == 64) return DType::f64;
    if (code == Code::Float && dtype.bits == 32) return DType::f32;
    if (code == Code::Float && dtype.bits == 16) return DType::f16;
    if (code == Code::Bfloat) return DType::bf16;
    if (code == Code::Int && dtype.bits == 64) return DType::i64;
    if (code == Code::Int && dtype.bits == 32) return DType::i32;
    if (code == Code::Int && dtype.bits == 16) return DType::i16;
    if (code == Code::Int && dtype.bits == 8) return DType::i8;
    if (code == Code::UInt && dtype.bits == 8) return DType::u8;
    if (code == Code::Bool) return DType::boolean;
  }
  throw KernelError("asarray",
                    "an array of this element type: convert it to one of float16, float32, float64, int8, "
                    "int16, int32, int64, uint8 or bool first");
}

// A copy of anything with the buffer protocol or DLPack, read-only arrays too, in any strides.
Tensor copy_of_array(const nb::ndarray<nb::ro>& array) {
  const DType dtype = dtype_of_buffer(array.dtype());
  std::vector<std::int64_t> shape(array.ndim());
  View view{};
  if (array.ndim() > static_cast<std::size_t>(kMaxRank)) {
    throw DimensionMismatch("an array of " + std::to_string(array.ndim()) + " axes: tensors have at most " +
                            std::to_string(kMaxRank));
  }
  for (std::size_t i = 0; i < array.ndim(); ++i) shape[i] = static_cast<std::int64_t>(array.shape(i));
  const Device device = array.device_type() == nb::device::cpu::value
                            ? kCpu
                            : Device{DeviceType::cuda, static_cast<std::int8_t>(array.device_id())};
  view = contiguous_view(const_cast<void*>(array.data()), Shape(shape), dtype, device);
  for (std::size_t i = 0; i < array.ndim(); ++i) view.strides[i] = array.stride(i);
  const ReleasedGil release;
  const auto storage = std::make_shared<Storage>(view.data, 0, device, [] {});
  return clone(Tensor(storage, view));
}

struct Format {
  const char* code;
};
Format format_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return {"d"};
    case DType::f32:
      return {"f"};
    case DType::f16:
      return {"e"};
    case DType::i64:
      return {"q"};
    case DType::i32:
      return {"i"};
    case DType::i16:
      return {"h"};
    case DType::i8:
      return {"b"};
    case DType::u8:
      return {"B"};
    case DType::boolean:
      return {"?"};
    default:
      return {nullptr};
  }
}

struct BufferShape {
  Py_ssize_t shape[kMaxRank], strides[kMaxRank];
};

// Whether memory lies as a consumer's flags ask. `shown` has shape and strides.
bool lies_as_asked(const Py_buffer& shown, int flags) {
  const auto wants = [flags](int flag) { return (flags & flag) == flag; };
  if (wants(PyBUF_C_CONTIGUOUS)) return PyBuffer_IsContiguous(&shown, 'C') != 0;
  if (wants(PyBUF_F_CONTIGUOUS)) return PyBuffer_IsContiguous(&shown, 'F') != 0;
  if (wants(PyBUF_ANY_CONTIGUOUS)) return PyBuffer_IsContiguous(&shown, 'A') != 0;
  return wants(PyBUF_STRIDES) || PyBuffer_IsContiguous(&shown, 'C') != 0;
}

int get_buffer(PyObject* self, Py_buffer* buffer, int flags) {
  buffer->obj = nullptr;
  const auto fail = [](const char* message) {
    PyErr_SetString(PyExc_BufferError, message);
    return -1;
  };
  if (!nb::inst_ready(self)) return fail("a tensor that was never made has no buffer");
  const Tensor& tensor = *nb::inst_ptr<Tensor>(nb::handle(self));
  if (!tensor.defined()) return fail("a tensor without values has no buffer");
  if (!tensor.device().is_cpu()) return fail("the tensor is on a GPU: .cpu() copies it to the host");
  const Format format = format_of(tensor.dtype());
  if (format.code == nullptr) {
    return fail("Python's buffers know neither bfloat16 nor 8-bit floats: .float() converts to float32");
  }
  auto sizes = std::make_unique<BufferShape>();
  const auto item = static_cast<Py_ssize_t>(byte_size(tensor.dtype()));
  for (int i = 0; i < tensor.rank(); ++i) {
    sizes->shape[i] = tensor.dim(i);
    sizes->strides[i] = tensor.stride(i) * item;
  }
  buffer->buf = tensor.view().data;
  buffer->len = static_cast<Py_ssize_t>(tensor.nbytes());
  buffer->itemsize = item;
  buffer->readonly = 0;
  buffer->ndim = tensor.rank();
  buffer->format = (flags & PyBUF_FORMAT) != 0 ? const_cast<char*>(format.code) : nullptr;
  buffer->shape = sizes->shape;
  buffer->strides = sizes->strides;
  buffer->suboffsets = nullptr;
  if (!lies_as_asked(*buffer, flags)) {
    return fail("the tensor does not lie in memory in the order that is asked for: .contiguous() copies it");
  }
  if ((flags & PyBUF_ND) != PyBUF_ND) buffer->shape = nullptr;
  if ((flags & PyBUF_STRIDES) != PyBUF_STRIDES) buffer->strides = nullptr;
  buffer->internal = sizes.release();
  buffer->obj = self;
  Py_INCREF(self);
  return 0;
}

void release_buffer(PyObject* /*self*/, Py_buffer* buffer) {
  delete static_cast<BufferShape*>(buffer->internal);
}

PyType_Slot slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)},
                       {Py_bf_releasebuffer, reinterpret_cast<void*>(release_buffer)},
                       {0, nullptr}};

}  // namespace

PyType_Slot* tensor_slots() { return slots; }

void bind_buffers(nb::module_& module) {
  nb::object type = module.attr("Tensor");
  module.def("from_dlpack", from_dlpack_object, "source"_a,
             "A tensor over the memory of anything with ``__dlpack__`` (PyTorch, JAX, NumPy, CuPy), without "
             "a copy.");
  module.def("_copy_array", copy_of_array, "array"_a);
  type.attr("__dlpack__") = nb::cpp_function(
      dlpack_of, nb::is_method(), nb::name("__dlpack__"), nb::kw_only(), "stream"_a = nb::none(),
      "max_version"_a = nb::none(), "dl_device"_a = nb::none(), "copy"_a = nb::none());
  type.attr("__dlpack_device__") =
      nb::cpp_function(dlpack_device, nb::is_method(), nb::name("__dlpack_device__"));
}

}  // namespace ingot::python
