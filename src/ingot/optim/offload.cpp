#include "ingot/optim/offload.h"

#include <algorithm>
#include <array>
#include <cstring>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/scratch_memory.h"
#include "ingot/core/host_memory.h"
#include "ingot/core/transfer.h"
#include "ingot/kernels/quant_map_8bit.h"

namespace ingot {
namespace {

// Ranges of a parameter begin at multiples of this, so that blocks of 8-bit moments stay whole.
constexpr std::int64_t kCut = 16 * kernels::kMomentBlock;
constexpr std::size_t kAlign = 256;  // of a tensor in a window

std::size_t aligned(std::size_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

Tensor as_range(const Tensor& tensor, std::int64_t begin, std::int64_t count) {
  std::byte* data =
      tensor.view().as<std::byte>() + static_cast<std::size_t>(begin) * byte_size(tensor.dtype());
  return {tensor.storage(), contiguous_view(data, {count}, tensor.dtype(), tensor.device())};
}

// A number for each of n elements, or a scale for each block of moments.
Tensor state_range(const Tensor& state, std::int64_t n, std::int64_t begin, std::int64_t end) {
  if (state.numel() == n) return as_range(state, begin, end - begin);
  const std::int64_t first = begin / kernels::kMomentBlock;
  return as_range(state, first, kernels::moment_blocks(end - begin));
}

OptimizerPiece range_of(const OptimizerPiece& whole, std::int64_t begin, std::int64_t end) {
  OptimizerPiece piece = whole;
  const std::int64_t n = whole.value.numel();
  piece.value = as_range(whole.value, begin, end - begin);
  piece.grad = as_range(whole.grad, begin, end - begin);
  if (whole.master.defined()) piece.master = as_range(whole.master, begin, end - begin);
  for (Tensor& buffer : piece.buffers) buffer = state_range(buffer, n, begin, end);
  return piece;
}

std::vector<OptimizerPiece> cut(const std::vector<OptimizerPiece>& pieces, std::size_t window) {
  std::vector<OptimizerPiece> parts;
  parts.reserve(pieces.size());
  for (const OptimizerPiece& piece : pieces) {
    const std::int64_t n = piece.value.numel();
    const std::size_t bytes = piece.moved_bytes();
    if (!piece.divisible || bytes <= window) {
      parts.push_back(piece);
      continue;
    }
    const auto fit = static_cast<std::int64_t>(static_cast<double>(window) / static_cast<double>(bytes) *
                                               static_cast<double>(n));
    const std::int64_t each = std::max(kCut, fit / kCut * kCut);
    for (std::int64_t begin = 0; begin < n; begin += each)
      parts.push_back(range_of(piece, begin, std::min(n, begin + each)));
  }
  return parts;
}

// In their order, as many as fit into a window, and one at least.
std::vector<std::span<OptimizerPiece>> windows_of(std::span<OptimizerPiece> pieces, std::size_t window) {
  std::vector<std::span<OptimizerPiece>> windows;
  for (std::size_t begin = 0; begin < pieces.size();) {
    std::size_t end = begin, bytes = 0;
    while (end < pieces.size() && (end == begin || bytes + pieces[end].moved_bytes() <= window))
      bytes += pieces[end++].moved_bytes();
    windows.push_back(pieces.subspan(begin, end - begin));
    begin = end;
  }
  return windows;
}

}  // namespace

std::string_view name(Offload offload) {
  switch (offload) {
    case Offload::none:
      return "none";
    case Offload::cpu:
      return "cpu";
    case Offload::disk:
      return "disk";
  }
  return "";
}

Offload parse_offload(const std::string& word, const char* key) {
  if (word == "none" || word == "false" || word == "False") return Offload::none;
  if (word == "cpu" || word == "true" || word == "True") return Offload::cpu;
  if (word == "disk" || word == "nvme") return Offload::disk;
  throw InvalidConfig(key, fmt::format("must be one of none, cpu, disk, got '{}'", word));
}

std::size_t offload_window(std::size_t state_bytes) {
  return std::clamp(state_bytes / 16, std::size_t{64} << 10, std::size_t{64} << 20);
}

void OptimizerPiece::for_each_moved(FunctionRef<void(Tensor&, bool)> f) {
  const auto visit = [&](Tensor& tensor, bool goes_back) {
    if (tensor.defined() && tensor.device() != value.device()) f(tensor, goes_back);
  };
  visit(grad, false);
  visit(master, true);
  for (Tensor& buffer : buffers) visit(buffer, true);
}

std::size_t OptimizerPiece::moved_bytes() const {
  OptimizerPiece copy = *this;
  std::size_t bytes = 0;
  copy.for_each_moved([&](const Tensor& tensor, bool) { bytes += aligned(tensor.nbytes()); });
  return bytes;
}

// Copies to the device and from it, each on a stream of its own, beside the steps between them.
struct OffloadedState::Transfer {
  struct Half {
    Tensor staging;
    Event loaded, stepped, stored;
    std::vector<std::pair<Tensor, Tensor>> tensors;  // on the host, in the staging
  };

  explicit Transfer(Device on)
      : device(on), owner(backend(on)), up(owner.create_stream()), down(owner.create_stream()) {
    begun = owner.create_event();
    for (Half& half : halves) {
      half.loaded = owner.create_event();
      half.stepped = owner.create_event();
      half.stored = owner.create_event();
    }
  }
  ~Transfer() {
    try {
      owner.synchronize(up);  // the copies read and write memory that may go
      owner.synchronize(down);
    } catch (const Error&) {
      // shows where the next one waits
    }
    owner.destroy_event(begun);
    for (const Half& half : halves)
      for (const Event event : {half.loaded, half.stepped, half.stored}) owner.destroy_event(event);
    owner.destroy_stream(up);
    owner.destroy_stream(down);
  }
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  // The staging is memory of the current stream, and goes back to it when all is stored: activations, which
  // are not there now, have the same memory in the next step.
  void run(std::span<const std::span<OptimizerPiece>> windows,
           FunctionRef<void(std::span<const OptimizerPiece>)> step) {
    const Stream compute = current_stream(device);
    std::size_t largest = 0;
    for (const auto& window : windows) {
      std::size_t bytes = 0;
      for (const OptimizerPiece& piece : window) bytes += piece.moved_bytes();
      largest = std::max(largest, bytes);
    }
    const std::size_t used = std::min(windows.size(), halves.size());
    for (std::size_t i = 0; i < used; ++i)
      halves[i].staging = Tensor::empty({static_cast<std::int64_t>(largest)}, DType::u8, device);
    owner.record(begun, compute);
    owner.wait(up, begun);
    load(halves[0], windows[0]);
    for (std::size_t i = 0; i < windows.size(); ++i) {
      Half& half = halves[i % 2];
      if (i + 1 < windows.size()) {
        Half& next = halves[(i + 1) % 2];
        if (i > 0) owner.wait(up, next.stored);
        load(next, windows[i + 1]);
      }
      owner.wait(compute, half.loaded);
      step(windows[i]);
      owner.record(half.stepped, compute);
      store(half);
    }
    for (std::size_t i = 0; i < used; ++i) {
      owner.wait(compute, halves[i].stored);
      halves[i].staging = {};
      halves[i].tensors.clear();
    }
  }

  // The pieces of the window have their state in the half from here on.
  void load(Half& half, std::span<OptimizerPiece> window) {
    half.tensors.clear();
    std::size_t at = 0;
    for (OptimizerPiece& piece : window) {
      piece.for_each_moved([&](Tensor& tensor, bool goes_back) {
        const Tensor there(half.staging.storage(), contiguous_view(half.staging.view().as<std::byte>() + at,
                                                                   tensor.shape(), tensor.dtype(), device));
        at += aligned(tensor.nbytes());
        owner.copy(there.view().data, tensor.view().data, tensor.nbytes(), up);
        if (goes_back) half.tensors.emplace_back(tensor, there);
        tensor = there;
      });
    }
    owner.record(half.loaded, up);
  }
  void store(Half& half) {
    owner.wait(down, half.stepped);
    for (const auto& [host, there] : half.tensors)
      owner.copy(host.view().data, there.view().data, host.nbytes(), down);
    owner.record(half.stored, down);
  }

  Device device;
  ComputeBackend& owner;
  Stream up, down;
  Event begun;
  std::array<Half, 2> halves;
};

OffloadedState::OffloadedState(OffloadConfig config) : config_(std::move(config)) {}
OffloadedState::~OffloadedState() = default;

OffloadedState::Transfer& OffloadedState::transfer(Device device) {
  if (transfer_ == nullptr) transfer_ = std::make_unique<Transfer>(device);
  INGOT_CHECK(transfer_->device == device,
              Error(fmt::format("optimizer: offloaded state is of parameters on {}; some are on {}",
                                to_string(transfer_->device), to_string(device))));
  return *transfer_;
}

Tensor OffloadedState::zeros(const Shape& shape, DType dtype, Device device) const {
  if (config_.to == Offload::none) return Tensor::zeros(shape, dtype, device);
  if (config_.to == Offload::disk) {
    make_directories(config_.directory);
    const auto memory =
        std::make_shared<ScratchMemory>(config_.directory, estimate_tensor_bytes(shape, dtype));
    return Tensor::wrap(memory->data(), shape, dtype, kCpu, [memory] {});
  }
  const Tensor made =
      has_host_memory(device) ? Tensor::empty(shape, dtype) : host_tensor(shape, dtype, device);
  if (made.nbytes() > 0) std::memset(made.view().data, 0, made.nbytes());
  return made;
}

void OffloadedState::run(std::vector<OptimizerPiece> pieces,
                         FunctionRef<void(std::span<const OptimizerPiece>)> step) {
  if (pieces.empty()) return;
  const Device device = pieces.front().value.device();
  if (has_host_memory(device)) return step(pieces);
  std::vector<OptimizerPiece> parts = cut(pieces, config_.window_bytes);
  transfer(device).run(windows_of(parts, config_.window_bytes), step);
}

void OffloadedState::wait() const {
  if (transfer_ != nullptr) transfer_->owner.synchronize(transfer_->down);
}

}  // namespace ingot
