#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "ingot/base/files.h"
#include "ingot/base/json.h"

namespace ingot::test {

/// A trace as a test looks at it.
struct TraceFile {
  struct Span {
    std::string category, name;
    double begin = 0, end = 0;  // microseconds
    nlohmann::json args;
    std::vector<std::string> around;  // "category name" of the spans that it lies in, the outermost first
  };
  std::vector<Span> spans;
  std::set<std::string> counters;
  std::vector<std::string> threads;

  const Span* find(const std::string& category, const std::string& name) const {
    for (const Span& span : spans)
      if (span.category == category && span.name == name) return &span;
    return nullptr;
  }
  /// How many spans lie in others that have these "category name"s, in this order.
  std::int64_t count(const std::vector<std::string>& path) const {
    return std::ranges::count_if(spans, [&](const Span& span) {
      std::vector<std::string> whole = span.around;
      whole.push_back(span.category + " " + span.name);
      if (whole.back() != path.back()) return false;
      std::size_t met = 0;
      for (const std::string& part : whole)
        if (met < path.size() && part == path[met]) ++met;
      return met == path.size();
    });
  }
};

/// Reads a trace and checks it by the format's rules: every event has what its kind needs, spans of a thread
/// lie in one another or apart, every thread has a name.
inline TraceFile read_trace(const std::string& path) {
  TraceFile trace;
  const auto json = parse_json_or_discard<nlohmann::json>(read_file(path));
  EXPECT_TRUE(json.is_object() && json.contains("traceEvents")) << path;
  if (!json.is_object()) return trace;
  using Thread = std::pair<int, int>;
  std::map<Thread, std::vector<TraceFile::Span>> threads;
  std::set<Thread> named;
  for (const auto& event : json.at("traceEvents")) {
    const std::string kind = event.at("ph"), name = event.at("name");
    EXPECT_FALSE(name.empty()) << event;
    const Thread thread{event.at("pid").get<int>(), event.at("tid").get<int>()};
    if (kind == "M") {
      if (name != "thread_name") continue;
      named.insert(thread);
      trace.threads.push_back(event.at("args").at("name"));
    } else if (kind == "C") {
      trace.counters.insert(name);
      EXPECT_FALSE(event.at("args").empty()) << event;
      for (const auto& value : event.at("args")) EXPECT_GE(value.get<double>(), 0) << event;
    } else {
      EXPECT_EQ(kind, "X");
      const double begin = event.at("ts"), lasted = event.at("dur");
      EXPECT_GE(begin, 0) << event;
      EXPECT_GE(lasted, 0) << event;
      threads[thread].push_back({event.at("cat"), name, begin, begin + lasted, event.at("args"), {}});
    }
  }
  constexpr double kRounding = 1e-3;  // timestamps are whole nanoseconds, in doubles
  for (auto& [thread, spans] : threads) {
    EXPECT_TRUE(named.contains(thread)) << "thread " << thread.second << " has no name";
    std::ranges::stable_sort(spans, [](const auto& a, const auto& b) {
      return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
    });
    std::vector<const TraceFile::Span*> open;
    for (TraceFile::Span& span : spans) {
      while (!open.empty() && open.back()->end <= span.begin + kRounding / 2 && open.back()->end < span.end)
        open.pop_back();
      for (const TraceFile::Span* around : open) span.around.push_back(around->category + " " + around->name);
      if (!open.empty())
        EXPECT_LE(span.end, open.back()->end + kRounding) << span.name << " leaves " << open.back()->name;
      open.push_back(&span);
    }
    trace.spans.insert(trace.spans.end(), spans.begin(), spans.end());
  }
  return trace;
}

}  // namespace ingot::test
