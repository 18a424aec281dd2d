#pragma once

#include <cstdint>
#include <string>

namespace ingot {

/// "0 B", "1.50 KiB", "23.4 GiB": three digits that count, powers of 1024.
std::string human_bytes(std::uint64_t bytes);

/// "5GB", "500 MB", "1.5GiB", "100": decimal and binary units, in any case. InvalidConfig naming `key`
/// otherwise.
std::uint64_t parse_bytes(const std::string& text, const std::string& key);

/// "950", "12.3k", "1.24M", "7.00B": three digits that count, powers of 1000. Also for rates.
std::string human_count(double count);

/// "850 us", "12.0 ms", "3.2 s", "1m 12s", "2h 05m", "3d 04h". Not a number, or without end: "?".
std::string human_duration(double seconds);

}  // namespace ingot
