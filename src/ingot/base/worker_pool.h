#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ingot {

/// Where this process stands among those that a launcher (mpirun, srun) started.
struct LaunchRank {
  std::int64_t rank = 0, size = 1;
  std::int64_t rank_here = 0, size_here = 1;  ///< on this machine, where the launcher tells
  static LaunchRank from_environment();
};

/// Processes that run this same command line once more as workers. They end when this process does.
class WorkerPool {
 public:
  /// `log_prefix`: each worker's stderr goes to "<prefix>-<i>.log". `input`: what each reads from its
  /// standard input. `gpus`: of the machine; two and more are shared out, one to a worker
  /// (CUDA_VISIBLE_DEVICES).
  WorkerPool(std::vector<std::string> arguments, std::int64_t count, std::string log_prefix,
             std::string input = {}, std::int64_t gpus = 0);
  ~WorkerPool();  // ends them
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  /// Looks after the workers without waiting: one that a signal ended is started again, unless it happens
  /// over and over without `progress` (any number that changes as work is done) changing. Throws Error with
  /// the end of its log where one failed or keeps dying.
  void tend(std::int64_t progress);
  /// Whether all have ended well.
  bool done() const;
  /// Asks them to end, waits, and kills those that take longer than they should.
  void stop();

  /// Set in the environment of a worker.
  static constexpr const char* kVariable = "INGOT_TUNE_WORKER";

 private:
  struct Process {
    std::int64_t pid = 0;  // 0: ended well
    std::string log;
    std::size_t log_start = 0;  // bytes that were there before it
  };
  void start(Process& process) const;

  std::vector<std::string> arguments_;
  std::string input_;
  std::int64_t gpus_;
  std::vector<Process> processes_;
  std::int64_t deaths_ = 0, progress_at_death_ = -1;
};

}  // namespace ingot
