#include "ingot/dist/nccl_communicator.h"

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <unistd.h>

#include "ingot/base/error.h"
#include "ingot/base/parallel.h"
#include "ingot/base/stopwatch.h"
#include "ingot/core/backend.h"
#include "ingot/dist/mpi_communicator.h"
#include "ingot/dist/waits.h"

namespace ingot::dist {
namespace {

int type_of(DType dtype) {
  if (dtype == DType::f32) return Nccl::float32;
  return dtype == DType::bf16 ? Nccl::bfloat16 : Nccl::float16;
}

// Slices of one size that follow each other in the order of ranks: what NCCL's own collectives take.
bool are_equal(std::span<const Slice> slices) {
  for (std::size_t i = 0; i < slices.size(); ++i)
    if (slices[i].begin != slices[0].begin + i * slices[0].size() || slices[i].size() != slices[0].size())
      return false;
  return true;
}

// NCCL does not block here: a call returns before the others have come, and is asked how far it is. So a rank
// that never comes is told from one that is slow, at the start of NCCL too.
class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(Communicator& control, Device device, const NcclId& id)
      : control_(control), device_(device) {
    try {
      stream_ = backend(device).create_stream();
      event_ = backend(device).create_event();
      barrier_ = static_cast<float*>(backend(device).allocate(sizeof(float), MemoryTag::other));
      backend(device_).fill_bytes(barrier_, 0, sizeof(float), stream_);
      Nccl::Config config;
      run("connection", [&] { return nccl().comm_init_rank_config(&comm_, size(), id, rank(), &config); });
    } catch (...) {
      release();
      throw;
    }
  }
  // NCCL's objects, the stream and the memory go with the process: when static objects end, CUDA has ended.
  ~NcclCommunicator() override = default;

  int rank() const override { return control_.rank(); }
  int size() const override { return control_.size(); }
  int local_rank() const override { return control_.local_rank(); }
  int local_size() const override { return control_.local_size(); }
  Device device() const override { return device_; }
  Stream stream() const override { return stream_; }
  std::string engine() const override { return "NCCL " + nccl().version_text(); }
  bool reduces(DType dtype) const override {
    return dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16;
  }

  void barrier() override {
    run("barrier", [&] {
      return nccl().all_reduce(barrier_, barrier_, 1, Nccl::float32, Nccl::kSum, comm_, stream_.native);
    });
  }

  void broadcast(std::span<std::byte> data, int root) override {
    run("broadcast", [&] { return broadcast_part(data, root); });
  }

  void all_gather(std::span<const std::byte> mine, std::span<std::byte> all) override {
    run("all-gather", [&] {
      return nccl().all_gather(mine.data(), all.data(), mine.size(), Nccl::uint8, comm_, stream_.native);
    });
  }

  void all_gather(std::span<std::byte> all, std::span<const Slice> slices) override {
    run("all-gather", [&] {
      if (are_equal(slices)) {
        const Slice own = slices[here()];
        return nccl().all_gather(all.data() + own.begin, all.data() + slices[0].begin, own.size(),
                                 Nccl::uint8, comm_, stream_.native);
      }
      return grouped(slices, [&](int rank, const Slice& slice) {
        return broadcast_part(all.subspan(slice.begin, slice.size()), rank);
      });
    });
  }

  void all_to_all(std::span<const std::byte> from, std::span<const Slice> slices,
                  std::span<std::byte> to) override {
    const std::size_t own = slices[here()].size();
    run("all-to-all", [&] {
      backend(device_).copy(to.data() + here() * own, from.data() + slices[here()].begin, own, stream_);
      return grouped(slices, [&](int rank, const Slice& slice) {
        if (rank == this->rank()) return static_cast<int>(Nccl::success);
        const int sent = slice.size() == 0 ? Nccl::success
                                           : nccl().send(from.data() + slice.begin, slice.size(), Nccl::uint8,
                                                         rank, comm_, stream_.native);
        if (failed(sent) || own == 0) return sent;
        return nccl().receive(to.data() + static_cast<std::size_t>(rank) * own, own, Nccl::uint8, rank, comm_,
                              stream_.native);
      });
    });
  }

  void all_reduce(std::span<float> values) override {
    run("all-reduce", [&] {
      return nccl().all_reduce(values.data(), values.data(), values.size(), Nccl::float32, Nccl::kSum, comm_,
                               stream_.native);
    });
  }

  void reduce_scatter(std::span<const std::byte> from, std::span<const Slice> slices, std::span<std::byte> to,
                      DType dtype) override {
    INGOT_CHECK(reduces(dtype), CommunicationError(fmt::format("NCCL has no sum of {}", name(dtype))));
    const std::size_t each = byte_size(dtype);
    run("reduce-scatter", [&] {
      if (are_equal(slices))
        return nccl().reduce_scatter(from.data() + slices[0].begin, to.data(), to.size() / each,
                                     type_of(dtype), Nccl::kSum, comm_, stream_.native);
      return grouped(slices, [&](int rank, const Slice& slice) {
        if (slice.size() == 0) return static_cast<int>(Nccl::success);
        return nccl().reduce(from.data() + slice.begin, to.data(), slice.size() / each, type_of(dtype),
                             Nccl::kSum, rank, comm_, stream_.native);
      });
    });
  }

  void send(std::span<const std::byte> data, int to) override {
    run(
        "send", [&] { return nccl().send(data.data(), data.size(), Nccl::uint8, to, comm_, stream_.native); },
        false);
  }

  void receive(std::span<std::byte> data, int from) override {
    run(
        "receive",
        [&] { return nccl().receive(data.data(), data.size(), Nccl::uint8, from, comm_, stream_.native); },
        false);
  }

  [[noreturn]] void abort(int exit_code) override {
    control_.abort(exit_code);
    std::_Exit(exit_code);  // for g++, which misses that abort() never returns
  }

 private:
  static bool failed(int result) { return result != Nccl::success && result != Nccl::in_progress; }
  std::size_t here() const { return static_cast<std::size_t>(rank()); }

  int broadcast_part(std::span<std::byte> data, int root) const {
    if (data.empty()) return Nccl::success;
    return nccl().broadcast(data.data(), data.data(), data.size(), Nccl::uint8, root, comm_, stream_.native);
  }

  // One operation of several calls, a rank's slice each.
  template <class Call>
  static int grouped(std::span<const Slice> slices, Call&& call) {
    int result = nccl().group_start();
    for (std::size_t i = 0; i < slices.size() && !failed(result); ++i)
      result = call(static_cast<int>(i), slices[i]);
    const int ended = nccl().group_end();
    return failed(result) ? result : ended;
  }

  // Begins an operation and waits for its end on the device. Those of two ranks have no number of their own.
  void run(std::string_view what, FunctionRef<int()> begin, bool of_all = true) {
    INGOT_CHECK(!ended_,
                CommunicationError(fmt::format("the {} over NCCL comes after an error that ended it", what)));
    if (of_all) ++operation_;
    try {
      run_to_end(what, begin);
    } catch (...) {
      if (!ended_) end();  // its kernels may still be at the memory that goes now
      throw;
    }
  }

  void run_to_end(std::string_view what, FunctionRef<int()> begin) {
    ComputeBackend& own = backend(device_);
    own.record(event_, stream_);  // makes it this thread's device, where NCCL looks
    const Stopwatch since;
    if (const int result = begin(); failed(result)) fail(what, result, since);
    bool launched = false;
    for (;;) {
      int state = Nccl::success;
      if (comm_ != nullptr) nccl().comm_get_async_error(comm_, &state);
      if (failed(state)) fail(what, state, since);
      if (state == Nccl::success && !launched) {
        own.record(event_, stream_);
        launched = true;
      }
      if (launched && own.is_done(event_)) return;
      const double waited = since.seconds(), limit = control_.timeout();
      if (waited < kSpinSeconds) continue;
      if (limit > 0 && (waited > limit || (waited > kLookSeconds && control_.another_gave_up())))
        give_up_on(what, waited, "");
      usleep(kSleep);
    }
  }

  // Ends NCCL, so that the device no longer waits, once the ranks have told each other in what they waited.
  [[noreturn]] void give_up_on(std::string_view what, double waited, const std::string& more) {
    std::string told;
    try {
      control_.give_up({operation_, waited, fmt::format("{} over NCCL", what), control_.activity()});
    } catch (const CommunicationError& error) {
      told = error.what();
    }
    end();
    throw CommunicationError(told + more);
  }

  [[noreturn]] void fail(std::string_view what, int result, const Stopwatch& since) {
    const char* last = nccl().get_last_error(comm_);
    const std::string said =
        fmt::format("{}{}{}", nccl().get_error_string(result), last != nullptr && *last != '\0' ? ": " : "",
                    last != nullptr ? last : "");
    if (result == Nccl::remote_error) give_up_on(what, since.seconds(), "; NCCL says: " + said);
    end();
    throw CommunicationError(
        fmt::format("rank {} on {}: the {} over NCCL (number {}) of {} failed: {}; "
                    "INGOT_NCCL=0 goes over the hosts' memory",
                    rank(), host_name(), what, operation_, control_.activity(), said));
  }

  // Of a connection that was not made.
  void release() noexcept {
    ComputeBackend& own = backend(device_);
    if (barrier_ != nullptr) own.deallocate(barrier_, sizeof(float), MemoryTag::other);
    if (event_.native != nullptr) own.destroy_event(event_);
    if (stream_.native != nullptr) own.destroy_stream(stream_);
  }

  void end() {
    ended_ = true;
    if (comm_ != nullptr) nccl().comm_abort(comm_);
    comm_ = nullptr;
  }

  Communicator& control_;
  Device device_;
  Stream stream_{};
  Event event_{};
  float* barrier_ = nullptr;  // what a barrier sums
  Nccl::Comm comm_ = nullptr;
  bool ended_ = false;
  std::int64_t operation_ = 0;
};

}  // namespace

std::unique_ptr<Communicator> nccl_communicator(Communicator& control, Device device, const NcclId& id) {
  return std::make_unique<NcclCommunicator>(control, device, id);
}

}  // namespace ingot::dist
