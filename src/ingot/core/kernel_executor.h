#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "ingot/core/stream.h"
#include "ingot/core/view.h"

namespace ingot {

/// What a compiled kernel takes of its device.
struct KernelInfo {
  std::string function;
  int registers = 0;             ///< of a thread
  int most_threads = 0;          ///< that a block may have
  std::size_t shared_bytes = 0;  ///< of a block, as declared
  std::size_t local_bytes = 0;   ///< of a thread, beyond its registers
};

/// One argument of a compiled kernel: a tensor, an address, or a number.
class KernelArgument {
 public:
  /// The address of a tensor's first element, for a pointer to elements of its dtype.
  KernelArgument(const View& tensor)  // NOLINT(google-explicit-constructor): as a call of the kernel reads
      : dtype_(tensor.dtype), device_(tensor.device), kind_(Kind::tensor) {
    keep(tensor.data);
  }
  /// An address on the device, for a pointer to anything.
  static KernelArgument buffer(void* data) {
    KernelArgument argument;
    argument.keep(data);
    return argument;
  }
  /// A number, of exactly the parameter's type: 2.0F for a float, 2 for an int.
  template <class T>
  requires std::is_arithmetic_v<T> KernelArgument(T value)  // NOLINT(google-explicit-constructor)
      : kind_(Kind::scalar), size_(sizeof(T)), floating_(std::is_floating_point_v<T>) {
    keep(value);
  }

  /// Where its bytes are.
  void* value() { return bytes_.data(); }

 private:
  friend class KernelSignature;
  enum class Kind : std::uint8_t { tensor, buffer, scalar };
  KernelArgument() = default;
  template <class T>
  void keep(T value) {
    std::memcpy(bytes_.data(), &value, sizeof value);
  }

  alignas(8) std::array<std::byte, 8> bytes_{};
  DType dtype_ = DType::f32;
  Device device_{};
  Kind kind_ = Kind::buffer;
  std::uint8_t size_ = 0;  // of a scalar
  bool floating_ = false;
};

/// A kernel's parameters, as its declaration in the source has them.
class KernelSignature {
 public:
  /// Throws KernelError where the source declares no such function `__global__`.
  KernelSignature(std::string_view source, std::string_view function);

  /// Throws KernelError that names the parameter where an argument is not what it takes: another number of
  /// them, a tensor of another dtype or device, a number of another type. Types of the source's own pass.
  void check(std::span<const KernelArgument> arguments, Device device) const;

 private:
  struct Parameter {
    std::string text;  // "const float* x"
    bool pointer = false;
    std::optional<DType> dtype;  // that it points to; none: any
    std::size_t size = 0;        // of a number; 0: a type of the source's own
    bool floating = false;
  };
  static Parameter parsed(std::string text);
  static std::string problem(const Parameter& parameter, const KernelArgument& argument, Device device);

  std::string function_;
  std::vector<Parameter> parameters_;
};

/// Compiles kernels from source at run time, on backends that can.
class KernelExecutor {
 public:
  virtual ~KernelExecutor() = default;
  struct Dim3 {
    unsigned x = 1, y = 1, z = 1;
  };
  struct Grid {
    Dim3 blocks{}, threads{};
    std::size_t shared_bytes = 0;  ///< of a block, beyond what the kernel declares
  };
  /// Compiles `source` and finds `function` in it, which it declares extern "C"; throws KernelError with the
  /// compiler's messages.
  virtual std::uint64_t load_kernel(std::string_view source, std::string_view function) = 0;
  /// Arguments are copied, and checked against the kernel's parameters (KernelSignature).
  virtual void execute_kernel(std::uint64_t handle, const Grid& grid,
                              std::span<const KernelArgument> arguments, Stream stream) = 0;
  virtual KernelInfo kernel_info(std::uint64_t handle) = 0;
  /// Not before what was launched of it has ended, nor while a recording holds it.
  virtual void unload_kernel(std::uint64_t handle) = 0;
};

}  // namespace ingot
