#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ingot/core/device.h"
#include "ingot/core/dtype.h"
#include "ingot/core/stream.h"
#include "ingot/dist/late_ranks.h"

namespace ingot::dist {

/// The most that a gather or an ordered sum of tensors takes at once, unless set_message_bytes() says else.
inline constexpr std::size_t kMessageBytes = std::size_t{64} << 20;

/// Bytes [begin, end) of a block of memory, or elements of a tensor: what one rank has of it.
struct Slice {
  std::size_t begin = 0, end = 0;
  std::size_t size() const { return end - begin; }
};

/// The processes (ranks) of one run, started together by mpirun, srun or the like. All of them call the same
/// operations in the same order, each from one thread at a time. Memory is that of device(): the host's, or a
/// GPU's, of which the caller has waited for what made it.
///
/// An operation that a rank waits in for longer than the time-out throws CommunicationError on the ranks that
/// wait, which names those that did not come.
class Communicator {
 public:
  Communicator() = default;
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// The number of this process among those of its machine, and how many those are.
  virtual int local_rank() const = 0;
  virtual int local_size() const = 0;
  bool is_first() const { return rank() == 0; }
  /// Whose memory operations take, and the stream that they work in: they have ended when a call returns.
  virtual Device device() const { return kCpu; }
  virtual Stream stream() const { return {device(), nullptr}; }
  /// What moves the bytes: "Open MPI", "NCCL 2.20.3".
  virtual std::string engine() const = 0;

  /// Waits until every rank is here.
  virtual void barrier() = 0;
  /// `data` of rank `root` goes to all.
  virtual void broadcast(std::span<std::byte> data, int root) = 0;
  /// Every rank's `mine`, in the order of ranks, goes to `all` of every rank: size() times as large.
  virtual void all_gather(std::span<const std::byte> mine, std::span<std::byte> all) = 0;
  /// In place: slices[r] of `all` is right on rank r, and then on every rank. The slices do not overlap.
  virtual void all_gather(std::span<std::byte> all, std::span<const Slice> slices) = 0;
  /// slices[r] of `from` goes to rank r; `to` gets this rank's slice of every rank's, in the order of ranks.
  virtual void all_to_all(std::span<const std::byte> from, std::span<const Slice> slices,
                          std::span<std::byte> to) = 0;
  /// Sums in place, in the order that is fastest: ranks get equal bits, other numbers of ranks others.
  virtual void all_reduce(std::span<float> values) = 0;
  /// One rank sends while the other receives as many bytes.
  virtual void send(std::span<const std::byte> data, int to) = 0;
  virtual void receive(std::span<std::byte> data, int from) = 0;
  /// Whether it has reduce_scatter() for that dtype.
  virtual bool reduces(DType /*dtype*/) const { return false; }
  /// `to` gets the sum of slices[rank()], in bytes, of every rank's `from`, in the order that is fastest.
  /// `to` may be that slice.
  virtual void reduce_scatter(std::span<const std::byte> from, std::span<const Slice> slices,
                              std::span<std::byte> to, DType dtype);
  /// A block of `bytes` of zeros for each rank, in their order, that all of them see; it stays until the
  /// process ends. All ranks call it. Empty where they are on several machines, or the engine has no such
  /// memory.
  virtual std::vector<std::span<std::byte>> shared_memory(std::size_t /*bytes*/) { return {}; }
  /// The ranks that give the same `color`, in their order, for the host's memory. All ranks call it. This one
  /// has to outlive it; its time-out holds there, too, and its message_bytes() as they are now.
  virtual std::unique_ptr<Communicator> split(int color);
  /// Ends every process of the run at once, from any state.
  [[noreturn]] virtual void abort(int exit_code) = 0;

  /// How long an operation may wait for other ranks; 0: for ever.
  void set_timeout(double seconds) { timeout_ = seconds; }
  double timeout() const { return timeout_; }
  /// The most bytes, of all ranks together, that a gather or an ordered sum of tensors takes at once; more go
  /// in pieces. The same on all ranks.
  void set_message_bytes(std::size_t bytes) { message_bytes_ = bytes; }
  std::size_t message_bytes() const { return message_bytes_; }
  /// What sets it, for errors: "ddp_timeout".
  virtual void set_timeout_name(std::string name) { timeout_name_ = std::move(name); }
  const std::string& timeout_name() const { return timeout_name_; }
  /// What the run is doing, for errors: "step 12".
  virtual void set_activity(std::string activity);
  std::string activity() const;
  /// A rank that is stopped is missed after some seconds (INGOT_RANK_SILENCE), whatever the time-out. One
  /// that prepares (loads a model) also when it neither computes nor reads. Later it may wait for what is no
  /// rank.
  virtual void set_preparing(bool /*prepares*/) {}
  /// The operation that a communicator over this one came to, for errors; `what` outlives both.
  virtual void set_position(std::int64_t /*operation*/, const char* /*what*/) {}

  /// The communicator for a device's memory: this one, or what connect_devices() put beside it; null where
  /// that memory has to go over the host's.
  Communicator* of(Device device);
  void set_beside(std::unique_ptr<Communicator> other) { beside_ = std::move(other); }

  /// For a wait in another engine's operation: whether a rank has given up waiting, and giving up oneself,
  /// which throws CommunicationError that names the late ranks.
  virtual bool another_gave_up() { return false; }
  [[noreturn]] virtual void give_up(const Waiting& own);

  /// The operation that this rank came to last.
  virtual Waiting position() const { return {.activity = activity()}; }
  /// This rank failed, at position(), and comes no more: those that wait for it throw at once, with `why`.
  void tell_failure(std::string_view why) noexcept;
  /// The same of an engine, where `own` has the failure.
  virtual void tell_failure(const Waiting& /*own*/) noexcept {}

  /// Strings of different lengths, by rank.
  std::vector<std::string> all_gather(const std::string& mine);
  /// Whether one of the ranks says so.
  bool any(bool mine);

 private:
  double timeout_ = 1800;
  std::size_t message_bytes_ = kMessageBytes;
  std::string timeout_name_ = "ddp_timeout";
  mutable std::mutex activity_mutex_;  // a thread that tells others of this rank reads it
  std::string activity_ = "the start";
  std::unique_ptr<Communicator> beside_;
};

/// While it lives, this rank prepares.
class Preparing {
 public:
  explicit Preparing(Communicator& communicator) : communicator_(communicator) {
    communicator_.set_preparing(true);
  }
  ~Preparing() { communicator_.set_preparing(false); }
  Preparing(const Preparing&) = delete;
  Preparing& operator=(const Preparing&) = delete;

 private:
  Communicator& communicator_;
};

/// Of this machine, for messages.
std::string host_name();

/// A run of one process.
std::unique_ptr<Communicator> alone();

/// Whether a launcher started this process as one of several.
bool is_launched();

/// The communicator of this process: MPI where a launcher started it as one of several (Open MPI, loaded when
/// it is first asked for), else alone(). It lives until the process ends. NotAvailable where the launcher is
/// there and MPI is not.
Communicator& world();

}  // namespace ingot::dist
