#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ingot/base/trace.h"

// What a trace's recording half (trace.cpp) hands to its writing half (trace_writer.cpp): numbers, and once
// each the texts that they stand for.
namespace ingot::trace {

struct Event {
  std::int64_t begin, end, number;
  std::uint32_t name;
  Details details;
  Row row;
  std::uint16_t shown_from;
  ScopeKind kind;
};

// One thread appends; what lies below `size` stays as it is, so others read it without a lock.
struct Chunk {
  static constexpr std::uint32_t kEvents = 4096;
  int thread = 0;
  std::atomic<std::uint32_t> size{0};
  std::array<Event, kEvents> events;
};

// The bytes of a details() call behind its format.
struct DetailRecord {
  static std::string key(std::span<const std::byte> record, DetailFormat format);
  explicit DetailRecord(std::string key) : key_(std::move(key)) {}
  bool is(std::span<const std::byte> record, DetailFormat format) const;
  std::string text() const;

 private:
  DetailFormat format() const;
  std::span<const std::byte> bytes() const {
    return std::as_bytes(std::span(key_)).subspan(sizeof(DetailFormat));
  }
  std::string key_;
};

struct Series {
  std::string name;
  std::vector<std::string> keys;
};
struct Sample {
  std::int64_t at;
  std::uint32_t series;
  std::size_t first_value;  // in Batch::values; as many as the series has keys
};

// What was recorded since the batch before; texts that a number stands for come with the first use or
// earlier. Pointers hold until the trace is over.
struct Batch {
  std::vector<std::shared_ptr<Chunk>> chunks;
  std::vector<std::uint32_t> sizes;  // of the chunks, when names were taken: later events name newer ones
  std::vector<const std::string*> names;
  std::vector<const DetailRecord*> details;
  std::vector<std::pair<int, std::string>> threads;
  std::vector<std::pair<std::string, std::string>> rows;  // group and name
  std::vector<Series> series;
  std::vector<Sample> samples;
  std::vector<double> values;
  bool last = false;
};

}  // namespace ingot::trace
