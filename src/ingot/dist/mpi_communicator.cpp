#include "ingot/dist/mpi_communicator.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "ingot/base/env.h"
#include "ingot/base/log.h"
#include "ingot/base/parallel.h"
#include "ingot/base/stopwatch.h"
#include "ingot/dist/heartbeat.h"
#include "ingot/dist/late_ranks.h"
#include "ingot/dist/mpi_library.h"
#include "ingot/dist/waits.h"

namespace ingot::dist {
namespace {

constexpr int kThreadSerialized = 2, kCommTypeShared = 0;

// What a rank that waits in vain, or failed, tells the others.
struct Notice {
  std::int64_t operation = 0;
  double seconds = 0;
  std::array<char, 32> what{};
  std::array<char, 64> activity{};
  std::array<char, 512> failure{};
  int silent = -1;  // a rank that nothing was heard of,
  double silence = 0;
  Beat last_beat{};         // but that, so many seconds ago
  bool suspects = false;    // and goes on itself
  bool takes_back = false;  // it was heard again
};

template <std::size_t N>
void put(std::array<char, N>& to, std::string_view text) {
  std::memcpy(to.data(), text.data(), std::min(text.size(), N - 1));
}

constexpr double kAnswerSeconds = 1;   // that ranks are given to tell what they wait in
constexpr double kTellSeconds = 0.2;   // that a rank takes to tell of its failure
constexpr unsigned kAbortSeconds = 5;  // that the launcher is given to end it
constexpr int kAnySource = -1, kNoticeTag = 1, kDataTag = 2, kBeatTag = 3;
constexpr std::size_t kMaxVersion = 8192;  // of the text that the library tells

// After so many seconds a rank that says nothing is taken to be stopped.
double most_silence() {
  // Environment: INGOT_RANK_SILENCE | seconds after which a stopped rank ends the others; 0: never (25)
  constexpr std::int64_t kUsual = 25, kMost = 86400;
  return static_cast<double>(env_int("RANK_SILENCE", 0, kMost).value_or(kUsual));
}

// Those of `comm` that share this rank's machine, and its place among them.
Handle ranks_of_machine(Handle comm, int& rank, int& size) {
  Handle local = nullptr;
  check_mpi(mpi().comm_split_type(comm, kCommTypeShared, 0, mpi().info_null, &local), "MPI_Comm_split_type");
  check_mpi(mpi().comm_rank(local, &rank), "MPI_Comm_rank");
  check_mpi(mpi().comm_size(local, &size), "MPI_Comm_size");
  return local;
}

// Ranks of one machine need no network: looking for one takes Open MPI longer than all else of its start.
// What the launcher was told (`--mca`) stays.
void keep_to_shared_memory() {
  const char* const all = std::getenv("OMPI_COMM_WORLD_SIZE");
  const char* const here = std::getenv("OMPI_COMM_WORLD_LOCAL_SIZE");
  if (all == nullptr || here == nullptr || std::string_view(all) != here) return;
  // Environment: OMPI_MCA_pml, OMPI_MCA_btl | what Open MPI sends bytes with, as `mpirun --mca` sets it;
  // Ingot chooses shared memory where neither is set and all ranks are on one machine
  if (std::getenv("OMPI_MCA_pml") != nullptr || std::getenv("OMPI_MCA_btl") != nullptr) return;
  ::setenv("OMPI_MCA_pml", "ob1", 1);
  ::setenv("OMPI_MCA_btl", "self,vader", 1);
}

// What ranks of a group, or all, do together.
class MpiCollectives : public Communicator {
 public:
  using Communicator::all_gather;

  void barrier() override {
    run("barrier", [&](Handle* request) { return mpi().barrier(comm(), request); });
  }

  void broadcast(std::span<std::byte> data, int root) override {
    const Counted counted(data.size(), "broadcast");
    run("broadcast", [&](Handle* request) {
      return mpi().bcast(data.data(), counted(data.size()), counted.type(), root, comm(), request);
    });
  }

  void all_gather(std::span<const std::byte> mine, std::span<std::byte> all) override {
    const Counted counted(mine.size(), "all-gather");
    const int count = counted(mine.size());
    run("all-gather", [&](Handle* request) {
      return mpi().allgather(mine.data(), count, counted.type(), all.data(), count, counted.type(), comm(),
                             request);
    });
  }

  void all_gather(std::span<std::byte> all, std::span<const Slice> slices) override {
    const Counted counted(slices, "all-gather");
    if (!counted.reaches(slices)) return gather_packed(all, slices);
    const Layout to = layout_of(slices, counted);
    run("all-gather", [&](Handle* request) {
      return mpi().allgatherv(in_place(), 0, counted.type(), all.data(), to.counts.data(), to.offsets.data(),
                              counted.type(), comm(), request);
    });
  }

  void all_to_all(std::span<const std::byte> from, std::span<const Slice> slices,
                  std::span<std::byte> to) override {
    const Counted counted(slices, "all-to-all");
    if (!counted.reaches(slices)) return send_packed(from, slices, to);
    const Layout sent = layout_of(slices, counted);
    const std::vector<Slice> own(slices.size(), slices[static_cast<std::size_t>(rank())]);
    const Layout received = layout_of(packed(own), counted);
    run("all-to-all", [&](Handle* request) {
      return mpi().alltoallv(from.data(), sent.counts.data(), sent.offsets.data(), counted.type(), to.data(),
                             received.counts.data(), received.offsets.data(), counted.type(), comm(),
                             request);
    });
  }

  void all_reduce(std::span<float> values) override {
    const Counted counted(values.size_bytes(), "all-reduce");
    run("all-reduce", [&](Handle* request) {
      return mpi().allreduce(in_place(), values.data(), counted(values.size_bytes()), mpi().float32,
                             mpi().op_sum, comm(), request);
    });
  }

  void send(std::span<const std::byte> data, int to) override {
    const Counted counted(data.size(), "send");
    run(
        "send",
        [&](Handle* request) {
          return mpi().isend(data.data(), counted(data.size()), counted.type(), to, kDataTag, comm(),
                             request);
        },
        false);
  }

  void receive(std::span<std::byte> data, int from) override {
    const Counted counted(data.size(), "receive");
    run(
        "receive",
        [&](Handle* request) {
          return mpi().irecv(data.data(), counted(data.size()), counted.type(), from, kDataTag, comm(),
                             request);
        },
        false);
  }

 protected:
  using Begin = FunctionRef<int(Handle*)>;
  virtual Handle comm() const = 0;
  // Begins an operation and waits for its end. Those of two ranks have no number of their own, so that
  // numbers are alike on all ranks.
  virtual void run(const char* what, Begin begin, bool of_all = true) = 0;

 private:
  // Slices too far apart for offsets of 31 bits go by way of memory where they are one behind the other.
  void gather_packed(std::span<std::byte> all, std::span<const Slice> slices) {
    const std::vector<Slice> close = packed(slices);
    check_packed(close, "all-gather");
    std::vector<std::byte> memory(close.back().end);
    const auto own = static_cast<std::size_t>(rank());
    std::memcpy(memory.data() + close[own].begin, all.data() + slices[own].begin, slices[own].size());
    all_gather(memory, close);
    for (std::size_t i = 0; i < slices.size(); ++i)
      if (i != own)
        std::memcpy(all.data() + slices[i].begin, memory.data() + close[i].begin, close[i].size());
  }
  void send_packed(std::span<const std::byte> from, std::span<const Slice> slices, std::span<std::byte> to) {
    const std::vector<Slice> close = packed(slices);
    check_packed(close, "all-to-all");
    std::vector<std::byte> memory(close.back().end);
    for (std::size_t i = 0; i < slices.size(); ++i)
      std::memcpy(memory.data() + close[i].begin, from.data() + slices[i].begin, close[i].size());
    all_to_all(memory, close, to);
  }
  // They are too many for one message, too.
  static void check_packed(std::span<const Slice> close, const char* what) {
    const Counted counted(close, what);
    if (!counted.reaches(close)) static_cast<void>(counted(close.back().begin));  // throws
  }
};

class MpiCommunicator;

// Some of the ranks. Its operations have no numbers, as the others do not take part.
class MpiGroup final : public MpiCollectives {
 public:
  MpiGroup(MpiCommunicator& all, Handle comm);
  ~MpiGroup() override;
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int local_rank() const override { return local_rank_; }
  int local_size() const override { return local_size_; }
  std::string engine() const override;
  [[noreturn]] void abort(int exit_code) override;

 private:
  Handle comm() const override { return comm_; }
  void run(const char* what, Begin begin, bool of_all) override;

  MpiCommunicator& all_;
  Handle comm_;
  int rank_ = 0, size_ = 1, local_rank_ = 0, local_size_ = 1;
};

// Operations are begun and then asked whether they have ended, so that a rank that never comes can be told
// from a slow network, and a thread that waits leaves the processors to those that compute.
class MpiCommunicator final : public MpiCollectives {
 public:
  MpiCommunicator() {
    int provided = 0;
    keep_to_shared_memory();
    check_mpi(mpi().init_thread(nullptr, nullptr, kThreadSerialized, &provided), "MPI_Init_thread");
    check_mpi(mpi().comm_rank(mpi().comm_world, &rank_), "MPI_Comm_rank");
    check_mpi(mpi().comm_size(mpi().comm_world, &size_), "MPI_Comm_size");
    local_ = ranks_of_machine(mpi().comm_world, local_rank_, local_size_);
    check_mpi(mpi().comm_dup(mpi().comm_world, &aside_), "MPI_Comm_dup");
    const auto ranks = static_cast<std::size_t>(size_);
    notices_.resize(ranks);
    holds_.resize(ranks);
    hosts_.assign(ranks, "an unknown host");  // until they tell
    hosts_ = Communicator::all_gather(host_name());
    start_heartbeat(provided);
  }
  ~MpiCommunicator() override {
    heartbeat_.reset();
    int done = 0;
    if (mpi().finalized(&done) != 0 || done != 0) return;
    for (Handle& window : windows_) mpi().win_free(&window);
    mpi().finalize();
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int local_rank() const override { return local_rank_; }
  int local_size() const override { return local_size_; }
  // The library tells "Open MPI v4.1.4, package: ...".
  std::string engine() const override {
    std::array<char, kMaxVersion> text{};
    int length = 0;
    check_mpi(mpi().get_library_version(text.data(), &length), "MPI_Get_library_version");
    return std::string(text.data()).substr(0, std::string_view(text.data()).find(','));
  }

  std::vector<std::span<std::byte>> shared_memory(std::size_t bytes) override {
    if (local_size_ != size_) return {};
    barrier();  // what follows waits for the others with the library in hand
    const std::lock_guard turn(turn_);
    void* own = nullptr;
    Handle window = nullptr;
    check_mpi(mpi().win_allocate_shared(static_cast<std::ptrdiff_t>(bytes), 1, mpi().info_null, local_, &own,
                                        &window),
              "MPI_Win_allocate_shared");
    windows_.push_back(window);
    std::memset(own, 0, bytes);  // here first: a rank's block is in memory near it
    std::vector<std::span<std::byte>> blocks;
    for (int rank = 0; rank < size_; ++rank) {
      std::ptrdiff_t size = 0;
      int unit = 0;
      void* block = nullptr;
      check_mpi(mpi().win_shared_query(window, rank, &size, &unit, &block), "MPI_Win_shared_query");
      blocks.emplace_back(static_cast<std::byte*>(block), bytes);
    }
    return blocks;
  }

  void set_preparing(bool prepares) override {
    if (heartbeat_.has_value()) heartbeat_->set_preparing(prepares);
  }

  std::unique_ptr<Communicator> split(int color) override {
    barrier();  // as in shared_memory()
    const std::lock_guard turn(turn_);
    Handle group = nullptr;
    check_mpi(mpi().comm_split(mpi().comm_world, color, rank_, &group), "MPI_Comm_split");
    return std::make_unique<MpiGroup>(*this, group);
  }
  // For a group of ranks.
  void run_aside(const char* what, FunctionRef<int(Handle*)> begin) { run(what, begin, false); }
  void free(Handle group) {
    int done = 0;
    const std::lock_guard turn(turn_);
    if (mpi().finalized(&done) == 0 && done == 0) mpi().comm_free(&group);
  }

  // The launcher ends the others where the library cannot, as a thread waits for ever in it.
  [[noreturn]] void abort(int exit_code) override {
    // Its daemon may wait for a host that is off the network: then the signal ends this process.
    std::signal(SIGALRM, SIG_DFL);
    ::alarm(kAbortSeconds);
    std::unique_lock turn(turn_, std::try_to_lock);
    for (const Stopwatch since; !turn.owns_lock() && since.seconds() < kAnswerSeconds; usleep(kSleep))
      static_cast<void>(turn.try_lock());
    if (turn.owns_lock()) mpi().abort(mpi().comm_world, exit_code);
    std::_Exit(exit_code);
  }

  // Others' notices lie in wait. One that a rank takes back counts no more.
  bool another_gave_up() override {
    const std::lock_guard turn(turn_);
    int there = 0;
    check_mpi(mpi().iprobe(kAnySource, kNoticeTag, aside_, &there, nullptr), "MPI_Iprobe");
    for (int rank = 0; there != 0 && rank < size_; ++rank) receive_notices(rank);
    return suspicion_.has_value() || std::ranges::count(holds_, true) > 0;
  }

  // All ranks that wait tell each other in what; those that say nothing are the late ones.
  [[noreturn]] void give_up(const Waiting& waiting_in) override {
    const auto ranks = static_cast<std::size_t>(size_), here = static_cast<std::size_t>(rank_);
    notices_[here] = own_notice(waiting_in);
    static_cast<void>(tell_others(notices_[here]));
    std::vector<std::optional<Waiting>> waiting(ranks);
    const auto hears = [&](std::size_t i) {
      const Notice& n = notices_[i];
      waiting[i] = {n.operation, n.seconds, n.what.data(), n.activity.data(), n.failure.data()};
      if (n.silent == rank_)
        throw CommunicationError(tell_missed_rank(rank_, static_cast<int>(i), hosts_[i], n.silence));
      if (n.silent < 0) return;
      waiting[static_cast<std::size_t>(n.silent)] = {.operation = n.last_beat.operation,
                                                     .what = n.last_beat.what.data(),
                                                     .activity = n.last_beat.activity.data(),
                                                     .silent = n.silence};
    };
    hears(here);
    const Stopwatch since;
    for (std::size_t heard = 1; heard < ranks && since.seconds() < kAnswerSeconds; usleep(kSleep)) {
      static_cast<void>(another_gave_up());
      const std::lock_guard turn(turn_);
      for (std::size_t i = 0; i < ranks; ++i) {
        if (i == here || !holds_[i] || waiting[i].has_value()) continue;
        hears(i);
        ++heard;
      }
    }
    throw CommunicationError(tell_late_ranks(rank_, waiting, hosts_, timeout_name()));
  }

  Waiting position() const override {
    const std::lock_guard turn(turn_);
    return {.operation = operation_, .what = last_, .activity = activity()};
  }

  void set_position(std::int64_t operation, const char* what) override {
    above_operation_.store(operation, std::memory_order_relaxed);
    above_.store(what, std::memory_order_relaxed);
  }

  using Communicator::tell_failure;
  void tell_failure(const Waiting& own) noexcept override {
    try {
      failure_ = notice_of(own);
      std::vector<Handle> sent = tell_others(failure_);
      const Stopwatch since;  // who fails may call MPI no more, which would leave them here
      const auto is_under_way = [this](Handle& one) { return one != nullptr && !ended(one, "MPI_Test"); };
      while (since.seconds() < kTellSeconds && std::ranges::count_if(sent, is_under_way) > 0) usleep(kSleep);
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): the others find it out by the time-out
    }
  }

 private:
  static Notice notice_of(const Waiting& told) {
    Notice notice{.operation = told.operation, .seconds = told.seconds};
    put(notice.what, told.what);
    put(notice.activity, told.activity);
    put(notice.failure, told.failure);
    return notice;
  }

  // With the rank that this one misses.
  Notice own_notice(const Waiting& told) const {
    const std::lock_guard turn(turn_);
    Notice notice = suspicion_.value_or(Notice{});
    notice.suspects = false;
    const Notice own = notice_of(told);
    notice.operation = own.operation;
    notice.seconds = own.seconds;
    notice.what = own.what;
    notice.activity = own.activity;
    return notice;
  }

  // Each rank is heard by the next one.
  Heartbeat::Line heart() {
    const int next = (rank_ + 1) % size_, before = (rank_ + size_ - 1) % size_;
    return {
        .position = [this] { return own_beat(); },
        .send = [this, next](const Beat& beat) { send_beat(beat, next); },
        .receive = [this, before] { return receive_beat(before); },
        .tell_silent = [this, before](const Beat& last, double seconds) { suspect(before, last, seconds); },
        .tell_heard = [this] { take_back(); }};
  }

  // Its thread calls the library beside those of the program.
  void start_heartbeat(int provided) {
    const double most = most_silence();
    if (size_ == 1 || most == 0) return;
    if (provided >= kThreadSerialized) return void(heartbeat_.emplace(heart(), most));
    if (rank_ == 0)
      log(LogLevel::warn, "ingot::dist",
          fmt::format("this MPI takes calls of one thread only, so a rank that is stopped is missed by {} "
                      "alone; install an Open MPI with threads",
                      timeout_name()));
  }

  // With the turn. Of several the first counts, unless it is taken back.
  void receive_notices(int from) {
    const auto rank = static_cast<std::size_t>(from);
    int there = 0;
    while (true) {
      check_mpi(mpi().iprobe(from, kNoticeTag, aside_, &there, nullptr), "MPI_Iprobe");
      if (there == 0) return;
      Notice notice;
      check_mpi(mpi().recv(&notice, sizeof notice, mpi().byte, from, kNoticeTag, aside_, nullptr),
                "MPI_Recv");
      if (notice.suspects && notice.silent == rank_) continue;  // its beats tell that it lives
      if (!holds_[rank]) notices_[rank] = notice;
      holds_[rank] = !notice.takes_back;
    }
  }

  Beat own_beat() const {
    Waiting own = position();
    if (const char* what = above_.load(std::memory_order_relaxed)) {
      own.what = what;
      own.operation = above_operation_.load(std::memory_order_relaxed);
    }
    Beat beat{.operation = own.operation};
    put(beat.what, own.what);
    put(beat.activity, own.activity);
    return beat;
  }

  // One at a time: who does not listen gets no second.
  void send_beat(const Beat& beat, int to) {
    const std::lock_guard turn(turn_);
    int done = 1;
    if (beat_sent_ != nullptr) check_mpi(mpi().test(&beat_sent_, &done, nullptr), "MPI_Test");
    if (done == 0) return;
    beat_ = beat;
    check_mpi(mpi().isend(&beat_, sizeof beat_, mpi().byte, to, kBeatTag, aside_, &beat_sent_), "MPI_Isend");
  }

  std::optional<Beat> receive_beat(int from) {
    const std::lock_guard turn(turn_);
    int there = 0;
    check_mpi(mpi().iprobe(from, kBeatTag, aside_, &there, nullptr), "MPI_Iprobe");
    if (there == 0) return std::nullopt;
    Beat beat;
    check_mpi(mpi().recv(&beat, sizeof beat, mpi().byte, from, kBeatTag, aside_, nullptr), "MPI_Recv");
    return beat;
  }

  // Tells the others, which end as they wait, and so does this one.
  void suspect(int rank, const Beat& last, double seconds) {
    Notice notice = notice_of(position());
    notice.suspects = true;
    notice.silent = rank;
    notice.silence = seconds;
    notice.last_beat = last;
    {
      const std::lock_guard turn(turn_);
      suspicion_ = notice;
    }
    static_cast<void>(tell_others(told_.emplace_back(notice)));
  }

  void take_back() {
    {
      const std::lock_guard turn(turn_);
      suspicion_.reset();
    }
    Notice notice = notice_of(position());
    notice.takes_back = true;
    static_cast<void>(tell_others(told_.emplace_back(notice)));
  }

  // By rank; what is sent stays where it is until the process ends.
  std::vector<Handle> tell_others(const Notice& notice) const {
    std::vector<Handle> sent(static_cast<std::size_t>(size_));
    for (int rank = 0; rank < size_; ++rank) {
      if (rank == rank_) continue;
      const std::lock_guard turn(turn_);
      check_mpi(mpi().isend(&notice, sizeof notice, mpi().byte, rank, kNoticeTag, aside_,
                            &sent[static_cast<std::size_t>(rank)]),
                "MPI_Isend");
    }
    return sent;
  }

  Handle comm() const override { return mpi().comm_world; }
  void run(const char* what, Begin begin, bool of_all) override {
    Handle request = nullptr;
    {
      const std::lock_guard turn(turn_);
      if (of_all) {
        ++operation_;
        last_ = what;
      }
      check_mpi(begin(&request), what);
    }
    const Stopwatch since;
    while (!ended(request, what)) {
      const double waited = since.seconds();
      if (waited < kSpinSeconds) continue;
      if ((timeout() > 0 && waited > timeout()) || (waited > kLookSeconds && another_gave_up())) {
        if (ends_after_all(request, what)) return;
        give_up({operation_, waited, what, activity()});
      }
      usleep(kSleep);
    }
  }

  // A process that was held up has messages to work through, some of them one at a call.
  bool ends_after_all(Handle& request, const char* what) {
    constexpr int kTries = 100;
    for (int i = 0; i < kTries; ++i)
      if (ended(request, what)) return true;
    return false;
  }

  bool ended(Handle& request, const char* what) const {
    const std::lock_guard turn(turn_);
    int done = 0;
    check_mpi(mpi().test(&request, &done, nullptr), what);
    return done != 0;
  }

  int rank_ = 0, size_ = 1, local_rank_ = 0, local_size_ = 1;
  Handle local_ = nullptr;       // of the ranks of this machine
  Handle aside_ = nullptr;       // for what is said beside the operations
  std::vector<Handle> windows_;  // memory that ranks share
  std::vector<Notice> notices_;  // by rank: the last, and this one's own
  std::vector<bool> holds_;      // by rank: its notice holds
  std::vector<std::string> hosts_;
  Notice failure_;  // this rank's own, on its way to the others
  std::int64_t operation_ = 0;
  const char* last_ = "";  // operation of all ranks

  mutable std::mutex turn_;          // to call the library: one thread does at a time
  std::optional<Notice> suspicion_;  // a rank that this one misses
  std::deque<Notice> told_;          // of it; they stay where they are until the process ends
  std::atomic<std::int64_t> above_operation_ = 0;
  std::atomic<const char*> above_ = nullptr;  // the last operation of a communicator over this one
  Beat beat_;
  Handle beat_sent_ = nullptr;
  std::optional<Heartbeat> heartbeat_;  // the last member: it ends first
};

MpiGroup::MpiGroup(MpiCommunicator& all, Handle comm) : all_(all), comm_(comm) {
  check_mpi(mpi().comm_rank(comm_, &rank_), "MPI_Comm_rank");
  check_mpi(mpi().comm_size(comm_, &size_), "MPI_Comm_size");
  Handle local = ranks_of_machine(comm_, local_rank_, local_size_);
  mpi().comm_free(&local);
  set_message_bytes(all.message_bytes());
}
MpiGroup::~MpiGroup() { all_.free(comm_); }
std::string MpiGroup::engine() const { return all_.engine(); }
void MpiGroup::abort(int exit_code) { all_.abort(exit_code); }
void MpiGroup::run(const char* what, Begin begin, bool /*of_all*/) { all_.run_aside(what, begin); }

}  // namespace

std::unique_ptr<Communicator> mpi_communicator() { return std::make_unique<MpiCommunicator>(); }

}  // namespace ingot::dist
