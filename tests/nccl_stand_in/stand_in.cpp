// A library with NCCL's C interface for ranks whose GPU is emulated (tests/emulated_gpu): messages are files
// of a folder that the ranks share, NCCL_STAND_IN_DIR. It is as strict as NCCL and, as NCCL with blocking =
// 0, returns before the others have come. Sums begin with the last rank, so that nobody takes them for
// ordered ones. What it needs of the emulator it finds in the program that opens it.
//
// NCCL_STAND_IN_FAULT=init: no communicator can be made; remote:N: in the Nth operation another rank is lost.

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/emulated_gpu/memory.h"
#include "tests/emulated_gpu/queue.h"

#include "ingot/core/dtype.h"

namespace {

namespace emulation = ingot::kernels::cuda::emulation;

enum Result : int {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7
};
enum Type : int { ncclUint8 = 1, ncclFloat32 = 7, ncclBfloat16 = 9 };

struct UniqueId {
  std::array<char, 128> internal;
};
struct Config {
  std::size_t size;
  unsigned magic, version;
  int blocking;
};

thread_local std::string last_error;  // NOLINT(cert-err58-cpp)

int refuse(Result result, std::string why) {
  last_error = std::move(why);
  return result;
}

std::size_t size_of(int type) {
  if (type == ncclUint8) return 1;
  if (type == ncclBfloat16) return 2;
  return type == ncclFloat32 ? 4 : 0;
}

class Stopped {};  // the communicator was aborted
struct Failed {
  Result result;
};  // an operation cannot go on

// What one call does: what it sends to others, then what it waits for.
struct Call {
  std::function<void()> give, take;
};

std::string variable(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nobody changes them
  return value != nullptr ? value : "";
}

class Comm {
 public:
  Comm(std::string name, int rank, int ranks)
      : folder_(variable("NCCL_STAND_IN_DIR") + "/" + std::move(name)), rank_(rank), ranks_(ranks) {
    const std::string fault = variable("NCCL_STAND_IN_FAULT");
    if (fault.starts_with("remote:")) fault_ = std::stol(fault.substr(7));
    submit({{[this] { greet(); }, {}}});
    thread_ = std::thread([this] { work(); });
  }
  ~Comm() {
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  int state() const { return state_; }

  void submit(std::vector<Call> group) {
    const std::lock_guard lock(mutex_);
    if (state_ == ncclSuccess) state_ = ncclInProgress;
    groups_.push_back(std::move(group));
    changed_.notify_all();
  }

  void send(const char* what, int to, const void* data, std::size_t bytes) {
    std::string text = std::string(what) + '\0';
    text.resize(kHead);
    {
      const emulation::Access access;
      text.append(static_cast<const char*>(data), bytes);
    }
    write(path(rank_, to, sent_[to]++), text);
  }
  std::string receive(const char* what, int from, std::size_t bytes) {
    std::string text = read(path(from, rank_, received_[from]++));
    if (text.c_str() != std::string(what) || text.size() != kHead + bytes) throw Failed{ncclInvalidUsage};
    return text.substr(kHead);
  }

 private:
  static constexpr std::size_t kHead = 32;  // bytes that name the operation

  std::string path(int from, int to, long number) const {
    return folder_ + "-" + std::to_string(from) + "-" + std::to_string(to) + "-" + std::to_string(number);
  }
  static void write(const std::string& path, const std::string& text) {
    const std::string part = path + ".part";
    std::ofstream(part, std::ios::binary) << text;
    if (std::rename(part.c_str(), path.c_str()) != 0) throw Failed{ncclSystemError};
  }
  std::string read(const std::string& path) const {
    for (;;) {
      if (stopped_) throw Stopped();
      if (std::ifstream file(path, std::ios::binary); file) {
        std::string text{std::istreambuf_iterator<char>(file), {}};
        std::remove(path.c_str());
        return text;
      }
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }

  void greet() {
    for (int other = 0; other < ranks_; ++other) write(path(rank_, other, -1), "here");
    for (int other = 0; other < ranks_; ++other) read(path(other, rank_, -1));
  }

  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return stopped_ || !groups_.empty(); });
      if (stopped_) return;
      const std::vector<Call> group = std::move(groups_.front());
      groups_.pop_front();
      lock.unlock();
      const int result = run(group);
      lock.lock();
      if (result != ncclSuccess) state_ = result;
      if (groups_.empty() && state_ == ncclInProgress) state_ = ncclSuccess;
    }
  }
  int run(const std::vector<Call>& group) {
    try {
      if (operation_++ == fault_) throw Failed{ncclRemoteError};
      for (const Call& call : group)
        if (call.give) call.give();
      for (const Call& call : group)
        if (call.take) call.take();
    } catch (const Failed& failed) {
      return failed.result;
    } catch (const Stopped&) {
      return ncclSystemError;
    }
    return ncclSuccess;
  }

  std::string folder_;
  int rank_, ranks_;
  long operation_ = 0, fault_ = -1;  // 0: the greeting
  std::map<int, long> sent_, received_;
  std::atomic<int> state_ = ncclSuccess;
  std::atomic<bool> stopped_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::vector<Call>> groups_;
  std::thread thread_;
};

thread_local int group_depth = 0;
thread_local std::vector<std::pair<Comm*, Call>> group;  // NOLINT(cert-err58-cpp)

int submit_group() {
  std::map<Comm*, std::vector<Call>> calls;
  for (auto& [comm, call] : group) calls[comm].push_back(std::move(call));
  group.clear();
  for (auto& [comm, list] : calls) comm->submit(std::move(list));
  return calls.empty() ? ncclSuccess : ncclInProgress;
}

int put(Comm* comm, void* stream, Call call) {
  if (comm->state() != ncclSuccess) return refuse(ncclInvalidUsage, "the operation before it has not ended");
  emulation::run_until(emulation::end_of(stream));  // what the stream has to do before
  group.emplace_back(comm, std::move(call));
  return group_depth > 0 ? ncclSuccess : submit_group();
}

bool on_device(const void* data) { return emulation::device_of(data).has_value(); }

int check(const void* from, const void* to, int type, int peer, const Comm* comm) {
  if (!on_device(from) || !on_device(to)) return refuse(ncclInvalidArgument, "memory of the host");
  if (size_of(type) == 0) return refuse(ncclInvalidArgument, "a dtype that it does not have");
  if (peer < 0 || peer >= comm->ranks()) return refuse(ncclInvalidArgument, "no such rank");
  return ncclSuccess;
}

void store(void* to, const std::string& bytes) {
  const emulation::Access access;
  std::memcpy(to, bytes.data(), bytes.size());
}

float widened(const char* at, int type) {
  if (type == ncclFloat32) {
    float value = 0;
    std::memcpy(&value, at, sizeof value);
    return value;
  }
  ingot::bf16 half;
  std::memcpy(&half.bits, at, sizeof half.bits);
  return static_cast<float>(half);
}
void narrow(float value, char* at, int type) {
  if (type == ncclFloat32) {
    std::memcpy(at, &value, sizeof value);
  } else {
    const ingot::bf16 half(value);
    std::memcpy(at, &half.bits, sizeof half.bits);
  }
}

// From the last rank's to the first's.
std::string sum(const std::vector<std::string>& parts, std::size_t count, int type) {
  const std::size_t each = size_of(type);
  std::string total(count * each, '\0');
  for (std::size_t i = 0; i < count; ++i) {
    float value = 0;
    for (auto part = parts.rbegin(); part != parts.rend(); ++part)
      value += widened(part->data() + i * each, type);
    narrow(value, total.data() + i * each, type);
  }
  return total;
}

std::vector<std::string> receive_all(Comm& comm, const char* what, std::size_t bytes) {
  std::vector<std::string> parts;
  parts.reserve(static_cast<std::size_t>(comm.ranks()));
  for (int other = 0; other < comm.ranks(); ++other) parts.push_back(comm.receive(what, other, bytes));
  return parts;
}

std::string random_name() {
  return "comm" + std::to_string(std::chrono::system_clock::now().time_since_epoch().count());
}

}  // namespace

extern "C" {

int ncclGetVersion(int* version) {
  *version = 22003;
  return ncclSuccess;
}
const char* ncclGetErrorString(int result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error";
    case ncclSystemError:
      return "unhandled system error";
    case ncclInvalidArgument:
      return "invalid argument";
    case ncclInvalidUsage:
      return "invalid usage";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    default:
      return "operation in progress";
  }
}
const char* ncclGetLastError(void* /*comm*/) { return last_error.c_str(); }

int ncclGetUniqueId(UniqueId* id) {
  if (variable("NCCL_STAND_IN_DIR").empty()) return refuse(ncclSystemError, "NCCL_STAND_IN_DIR is not set");
  id->internal.fill('\0');
  random_name().copy(id->internal.data(), id->internal.size() - 1);
  return ncclSuccess;
}
int ncclCommInitRankConfig(void** comm, int ranks, UniqueId id, int rank, const Config* config) {
  if (config->magic != 0xcafebeef || config->size < sizeof(Config) || config->blocking != 0)
    return refuse(ncclInvalidArgument, "not a configuration of a communicator that does not block");
  if (variable("NCCL_STAND_IN_FAULT") == "init") return refuse(ncclUnhandledCudaError, "no CUDA device");
  *comm = new Comm(id.internal.data(), rank, ranks);
  return ncclInProgress;
}
int ncclCommAbort(void* comm) {
  delete static_cast<Comm*>(comm);
  return ncclSuccess;
}
int ncclCommGetAsyncError(void* comm, int* result) {
  *result = static_cast<Comm*>(comm)->state();
  return ncclSuccess;
}
int ncclGroupStart() {
  ++group_depth;
  return ncclSuccess;
}
int ncclGroupEnd() { return --group_depth > 0 ? static_cast<int>(ncclSuccess) : submit_group(); }

int ncclSend(const void* data, std::size_t count, int type, int peer, void* handle, void* stream) {
  auto* comm = static_cast<Comm*>(handle);
  if (const int problem = check(data, data, type, peer, comm); problem != ncclSuccess) return problem;
  return put(comm, stream,
             {.give = [=] { comm->send("send", peer, data, count * size_of(type)); }, .take = {}});
}
int ncclRecv(void* data, std::size_t count, int type, int peer, void* handle, void* stream) {
  auto* comm = static_cast<Comm*>(handle);
  if (const int problem = check(data, data, type, peer, comm); problem != ncclSuccess) return problem;
  return put(comm, stream,
             {.give = {}, .take = [=] { store(data, comm->receive("send", peer, count * size_of(type))); }});
}
int ncclBroadcast(const void* from, void* to, std::size_t count, int type, int root, void* handle,
                  void* stream) {
  auto* comm = static_cast<Comm*>(handle);
  if (const int problem = check(from, to, type, root, comm); problem != ncclSuccess) return problem;
  const std::size_t bytes = count * size_of(type);
  Call call{.give = {}, .take = [=] { store(to, comm->receive("broadcast", root, bytes)); }};
  if (comm->rank() == root)
    call.give = [=] {
      for (int other = 0; other < comm->ranks(); ++other) comm->send("broadcast", other, from, bytes);
    };
  return put(comm, stream, std::move(call));
}
int ncclAllGather(const void* from, void* to, std::size_t count, int type, void* handle, void* stream) {
  auto* comm = static_cast<Comm*>(handle);
  if (const int problem = check(from, to, type, 0, comm); problem != ncclSuccess) return problem;
  const std::size_t bytes = count * size_of(type);
  return put(comm, stream,
             {.give =
                  [=] {
                    for (int other = 0; other < comm->ranks(); ++other)
                      comm->send("all-gather", other, from, bytes);
                  },
              .take =
                  [=] {
                    auto* at = static_cast<char*>(to);
                    for (const std::string& part : receive_all(*comm, "all-gather", bytes)) {
                      store(at, part);
                      at += bytes;
                    }
                  }});
}
int ncclAllReduce(const void* from, void* to, std::size_t count, int type, int /*op*/, void* handle,
                  void* stream) {
  auto* comm = static_cast<Comm*>(handle);
  if (const int problem = check(from, to, type, 0, comm); problem != ncclSuccess) return problem;
  const std::size_t bytes = count * size_of(type);
  return put(comm, stream,
             {.give =
                  [=] {
                    for (int other = 0; other < comm->ranks(); ++other)
                      comm->send("all-reduce", other, from, bytes);
                  },
              .take = [=] { store(to, sum(receive_all(*comm, "all-reduce", bytes), count, type)); }});
}
int ncclReduce(const void* from, void* to, std::size_t count, int type, int /*op*/, int root, void* handle,
               void* stream) {
  auto* comm = static_cast<Comm*>(handle);
  const bool receives = comm->rank() == root;
  if (const int problem = check(from, receives ? to : from, type, root, comm); problem != ncclSuccess)
    return problem;
  const std::size_t bytes = count * size_of(type);
  Call call{.give = [=] { comm->send("reduce", root, from, bytes); }, .take = {}};
  if (receives) call.take = [=] { store(to, sum(receive_all(*comm, "reduce", bytes), count, type)); };
  return put(comm, stream, std::move(call));
}
int ncclReduceScatter(const void* from, void* to, std::size_t count, int type, int /*op*/, void* handle,
                      void* stream) {
  auto* comm = static_cast<Comm*>(handle);
  if (const int problem = check(from, to, type, 0, comm); problem != ncclSuccess) return problem;
  const std::size_t bytes = count * size_of(type);
  return put(comm, stream,
             {.give =
                  [=] {
                    const auto* at = static_cast<const char*>(from);
                    for (int other = 0; other < comm->ranks(); ++other, at += bytes)
                      comm->send("reduce-scatter", other, at, bytes);
                  },
              .take = [=] { store(to, sum(receive_all(*comm, "reduce-scatter", bytes), count, type)); }});
}

}  // extern "C"
