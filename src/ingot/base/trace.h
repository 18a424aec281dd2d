#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ingot/base/scope.h"

namespace ingot {

/// Records, while alive, when each thread is in which Scope, when kernels run and how much memory is in use,
/// and writes it as Chrome's trace JSON, which https://ui.perfetto.dev and chrome://tracing open. One at a
/// time in a process.
///
///     Trace trace("trace.json");
///     trainer.run();
///     trace.finish();
///
/// A thread of its own writes while the run goes on: memory for a few ten thousand events is enough for any.
class Trace {
 public:
  static constexpr std::int64_t kMostEvents = 2'000'000;  // some 300 MB of JSON, which browsers still open

  /// `about`: what the file says of the run, by name. The first `most_events` are kept; the file says how
  /// many came after them. IoError where `path` cannot be written; Error where another trace is alive.
  explicit Trace(std::string path, std::vector<std::pair<std::string, std::string>> about = {},
                 std::int64_t most_events = kMostEvents);
  /// Without finish() nothing is written.
  ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  /// Ends the recording and completes the file. Spans that are open on other threads are left out. IoError
  /// where the file could not be written.
  void finish();

 private:
  struct Writing;
  std::string path_;
  std::unique_ptr<ScopeWatch> watch_;
  std::unique_ptr<Writing> writing_;
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

/// What events say beside their names. `record` is kept as bytes until it is written: `format` then makes of
/// it the members of a JSON object, without braces. It may hold addresses of what lives as long as the
/// process. Events with equal records share one. 0 is none.
using Details = std::uint32_t;
using DetailFormat = std::string (*)(std::span<const std::byte> record);
Details details(std::span<const std::byte> record, DetailFormat format);

/// `text` as a JSON string.
std::string json_string(std::string_view text);

/// Something that lasted, from and to a now().
struct Span {
  ScopeKind kind = ScopeKind::work;
  std::string_view name;         ///< of a module: its full name
  std::uint16_t shown_from = 0;  ///< so many bytes of `name` the picture leaves out
  std::int64_t begin = 0, end = 0;
  std::int64_t number = Scope::kNoNumber;
  Details details = 0;
  Row row = kThisThread;
};
void add(const Span& span);

/// Values of the graph `name` from now on, one for each of its `keys`, which are always the same.
void counter(std::string_view name, std::span<const std::string_view> keys, std::span<const double> values);

/// Calls `f` before each trace ends, for what is to be added late. For the life of the process.
void before_end(std::function<void()> f);

}  // namespace trace
}  // namespace ingot
