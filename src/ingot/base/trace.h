#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ingot/base/parallel.h"
#include "ingot/base/scope.h"

namespace ingot {

/// Records, while alive, when each thread is in which Scope, when kernels run and how much memory is in use,
/// and writes it as Chrome's trace JSON, which https://ui.perfetto.dev and chrome://tracing open. One at a
/// time in a process.
///
///     Trace trace("trace.json");
///     trainer.run();
///     trace.finish();
class Trace {
 public:
  /// `about`: what the file says of the run, by name. IoError where `path` cannot be written; Error where
  /// another trace is alive.
  explicit Trace(std::string path, std::vector<std::pair<std::string, std::string>> about = {});
  /// Without finish() nothing is written.
  ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  /// Ends the recording and writes the file. Spans that are open on other threads are left out. The events
  /// kept are the first two million; the file says how many came after them.
  void finish();

 private:
  std::string path_;
  std::vector<std::pair<std::string, std::string>> about_;
  std::unique_ptr<ScopeWatch> watch_;
};

/// What the parts of Ingot tell a trace that is alive. Nothing happens where none is.
namespace trace {

bool active();
/// Nanoseconds by a clock that only goes forward.
std::int64_t now();

/// A line of the picture: a thread, or a stream of a device.
using Row = std::uint32_t;
inline constexpr Row kThisThread = 0;
/// The row `name` among those of `group` ("cuda:0"); made when it is first asked for.
Row row(std::string_view group, std::string_view name);
/// What the calling thread's row is called, in traces that it has not shown up in yet.
void name_thread(std::string_view name);

/// Text beside events: the members of a JSON object, without braces. Many events share it: `make`, which
/// tells the trace nothing, is called for a `key` that is new to it. 0 is none.
using Details = std::uint32_t;
Details details(std::string_view key, FunctionRef<std::string()> make);

/// `text` as a JSON string.
std::string json_string(std::string_view text);

/// Something that lasted, from and to a now().
struct Span {
  ScopeKind kind = ScopeKind::work;
  std::string_view name;
  std::int64_t begin = 0, end = 0;
  std::int64_t number = Scope::kNoNumber;
  Details details = 0;
  Row row = kThisThread;
};
void add(const Span& span);

/// Values of the graph `name` from now on.
void counter(std::string_view name, const std::vector<std::pair<std::string_view, double>>& values);

/// Calls `f` before each trace ends, for what is to be added late. For the life of the process.
void before_end(std::function<void()> f);

}  // namespace trace
}  // namespace ingot
