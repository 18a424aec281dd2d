#pragma once

#include <array>
#include <span>
#include <vector>

#include "ingot/core/backend.h"
#include "ingot/core/tensor.h"

namespace ingot {

/// A contiguous tensor of the host in memory that copies of `device` reach without holding up the caller; an
/// ordinary one where `device` is the CPU. Costly to make: keep it.
Tensor host_tensor(const Shape& shape, DType dtype, Device device);

/// A tensor of a device that the host fills again and again without waiting for the device: it always stays
/// at its address (so a captured CUDA graph may read it), and there are two tensors of the host for its
/// values, one that is being copied and one to write to. On the CPU there is but the one tensor.
///
///     Upload ids({8, 512}, DType::i32, device);
///     write(ids.host()); ids.send();
///     use(ids.tensor());
class Upload {
 public:
  /// The tensor's values are not set yet.
  Upload(const Shape& shape, DType dtype, Device device);
  ~Upload();
  Upload(const Upload&) = delete;
  Upload& operator=(const Upload&) = delete;

  /// Where to write the next values, all of them. Waits for the copy of the last but one send().
  const Tensor& host();
  /// Puts the copy of what host() gave into the current stream.
  void send();
  /// On the device: the values sent last, for work that comes behind in the stream.
  const Tensor& tensor() const { return tensor_; }

 private:
  struct Half {
    Tensor host;
    Event sent;
    bool busy = false;
  };
  Tensor tensor_;
  std::array<Half, 2> halves_;
  std::size_t turn_ = 0;
};

/// Values on their way from a device to the host, again and again, through one tensor of the host.
class Download {
 public:
  Download(const Shape& shape, DType dtype, Device device);
  ~Download();
  Download(const Download&) = delete;
  Download& operator=(const Download&) = delete;

  /// Puts a copy of `values`, contiguous and of this shape and dtype, into the current stream. The values
  /// before must have been taken.
  void start(const Tensor& values);
  /// Waits for the copy, and only for the work before it. The tensor is the same every time.
  const Tensor& wait();

 private:
  Device device_;
  Tensor host_;
  Event arrived_;
};

/// Copies of a device's tensors on the host that hold up neither: they go through page-locked memory, on a
/// stream of their own, while the device works on. It keeps some of that memory.
class HostCopies {
 public:
  explicit HostCopies(Device device);
  ~HostCopies();
  HostCopies(const HostCopies&) = delete;
  HostCopies& operator=(const HostCopies&) = delete;

  /// What tensors hold at this point of the current stream is wanted. From here to the end of copy() nothing
  /// may be put into the stream that changes them; what only reads them may.
  void mark();
  /// What the tensors held at the mark. Those of the host are given back as they are.
  std::vector<Tensor> copy(std::span<const Tensor> tensors);

 private:
  struct Piece {  // of a tensor, that fits into a half
    const std::byte* from = nullptr;
    std::byte* to = nullptr;
    std::size_t bytes = 0;
  };
  struct Half {
    Tensor staging;
    Event arrived;
    Piece piece;  // under way; of no bytes where there is none
  };
  void start(Half& half, const Piece& piece) const;
  void finish(Half& half) const;

  Device device_;
  Stream stream_;
  Event marked_;
  std::array<Half, 2> halves_;
};

}  // namespace ingot
