#include "ingot/train/offloaded_activations.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "ingot/base/error.h"
#include "ingot/base/file_memory.h"
#include "ingot/base/files.h"
#include "ingot/base/scratch_memory.h"
#include "ingot/core/backend.h"
#include "ingot/core/host_memory.h"
#include "ingot/core/memory.h"
#include "ingot/core/transfer.h"

namespace ingot {

// Memory of the host, used again from pass to pass, and the streams of the copies.
struct OffloadedActivations::Pool {
  struct Buffer {
    Tensor host;               // bytes
    Event stored{}, loaded{};  // the copies to it, and from it, have ended
  };

  Pool(Device on, OffloadConfig where)
      : device(on), owner(backend(on)), on_host(has_host_memory(on)), to(std::move(where)) {
    if (to.to == Offload::disk) make_directories(to.directory);
    if (on_host) return;
    up = owner.create_stream();
    down = owner.create_stream();
  }
  ~Pool() {
    if (on_host) return;
    try {
      owner.synchronize(up);  // the copies read and write memory that goes
      owner.synchronize(down);
    } catch (const Error&) {
      // shows where the next one waits
    }
    for (const Buffer& buffer : free) destroy(buffer);
    owner.destroy_stream(up);
    owner.destroy_stream(down);
  }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  // The smallest that is large enough. Else a new one in the place of a smaller one: passes over batches of
  // unequal length end up with as many of the longest as there are layers.
  Buffer take(std::size_t bytes) {
    auto best = free.end();
    for (auto it = free.begin(); it != free.end(); ++it)
      if (it->host.nbytes() >= bytes && (best == free.end() || it->host.nbytes() < best->host.nbytes()))
        best = it;
    if (best == free.end()) {
      if (!free.empty()) drop(free.size() - 1);
      return make(bytes);
    }
    Buffer buffer = std::move(*best);
    free.erase(best);
    return buffer;
  }
  void give_back(Buffer buffer) { free.push_back(std::move(buffer)); }

  // The last input's memory goes to work that comes behind in the current stream, and so behind the copy.
  void end_leaving() {
    if (!leaving.defined()) return;
    owner.wait(current_stream(device), left);
    leaving = {};
  }

  Device device;
  ComputeBackend& owner;
  bool on_host;
  OffloadConfig to;
  Stream up{}, down{};
  Tensor leaving;  // the last input that was put, until it has been copied
  Event left{};    // the end of that copy: an event of its buffer
  std::vector<Buffer> free;

 private:
  Buffer make(std::size_t bytes) const {
    Buffer buffer;
    const Shape shape{static_cast<std::int64_t>(bytes)};
    if (to.to == Offload::disk) {
      const auto memory = std::make_shared<ScratchMemory>(to.directory, bytes);
      buffer.host = Tensor::wrap(memory->data(), shape, DType::u8, kCpu, [memory] {});
    } else {
      buffer.host = host_tensor(shape, DType::u8, device);
    }
    if (on_host) return buffer;
    buffer.stored = owner.create_event();
    buffer.loaded = owner.create_event();
    return buffer;
  }
  void drop(std::size_t i) {
    if (!on_host) {
      end_leaving();
      owner.synchronize(up);
      owner.synchronize(down);
      destroy(free[i]);
    }
    free.erase(free.begin() + static_cast<std::ptrdiff_t>(i));
  }
  void destroy(const Buffer& buffer) const {
    owner.destroy_event(buffer.stored);
    owner.destroy_event(buffer.loaded);
  }
};

class OffloadedActivations::Input final : public CheckpointStore::Held {
 public:
  Input(std::shared_ptr<Pool> pool, const Tensor& input, std::weak_ptr<Input> before)
      : pool_(std::move(pool)),
        buffer_(pool_->take(input.nbytes())),
        shape_(input.shape()),
        dtype_(input.dtype()),
        before_(std::move(before)) {
    if (pool_->on_host) {
      std::memcpy(bytes(), input.view().data, input.nbytes());
      let_go(bytes(), input.nbytes());
      return;
    }
    try {
      leave(input);
    } catch (...) {
      pool_->give_back(std::move(buffer_));
      throw;
    }
  }
  ~Input() override {
    if (on_device_.defined()) end_coming();
    pool_->give_back(std::move(buffer_));
  }
  Input(const Input&) = delete;
  Input& operator=(const Input&) = delete;

  Tensor get() override {
    fetch();
    const Tensor here = pool_->on_host ? values() : std::exchange(on_device_, {});
    if (!pool_->on_host) pool_->owner.wait(current_stream(pool_->device), buffer_.loaded);
    if (const std::shared_ptr<Input> next = before_.lock()) next->fetch();
    return here;
  }

 private:
  void* bytes() const { return buffer_.host.view().data; }
  std::size_t nbytes() const { return estimate_tensor_bytes(shape_, dtype_); }
  Tensor values() const { return {buffer_.host.storage(), contiguous_view(bytes(), shape_, dtype_, kCpu)}; }

  void leave(const Tensor& input) {
    pool_->end_leaving();
    pool_->owner.record(buffer_.stored, current_stream(pool_->device));
    pool_->owner.wait(pool_->down, buffer_.stored);
    pool_->owner.wait(pool_->down, buffer_.loaded);  // what was in it before has been read
    pool_->owner.copy(bytes(), input.view().data, input.nbytes(), pool_->down);
    pool_->owner.record(buffer_.stored, pool_->down);
    pool_->leaving = input.detach();
    pool_->left = buffer_.stored;
  }

  // It begins to come.
  void fetch() {
    if (pool_->on_host) return read_ahead(bytes(), nbytes());
    if (on_device_.defined()) return;
    pool_->end_leaving();
    const MemoryTagScope tag(MemoryTag::activation);
    on_device_ = Tensor::empty(shape_, dtype_, pool_->device);
    // Memory of the stream that computes, which the one beside fills once it is free.
    pool_->owner.record(buffer_.loaded, current_stream(pool_->device));
    pool_->owner.wait(pool_->up, buffer_.loaded);
    pool_->owner.wait(pool_->up, buffer_.stored);
    pool_->owner.copy(on_device_.view().data, bytes(), nbytes(), pool_->up);
    pool_->owner.record(buffer_.loaded, pool_->up);
  }

  // Of a pass that did not get to it: the memory goes behind the copy into it.
  void end_coming() noexcept {
    try {
      pool_->owner.wait(current_stream(pool_->device), buffer_.loaded);
    } catch (const Error&) {
      // shows where the next one waits
    }
  }

  std::shared_ptr<Pool> pool_;
  Pool::Buffer buffer_;
  Shape shape_;
  DType dtype_;
  std::weak_ptr<Input> before_;  // which a backward pass wants next
  Tensor on_device_;             // while it comes
};

OffloadedActivations::OffloadedActivations(Device device, const OffloadConfig& to)
    : pool_(std::make_shared<Pool>(device, to)) {}
OffloadedActivations::~OffloadedActivations() = default;

std::shared_ptr<CheckpointStore::Held> OffloadedActivations::put(const Tensor& input) {
  INGOT_CHECK(input.is_contiguous(), Error("offload_activations: the input of a layer is not contiguous"));
  const auto held = std::make_shared<Input>(pool_, input, last_);
  last_ = held;
  return held;
}

}  // namespace ingot
