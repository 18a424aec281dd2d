#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ingot::hub {

/// One entry of a cache: a repository of the Hub with all its revisions, what was fetched from an address, or
/// prepacked weights. All can be fetched or made again.
struct CacheEntry {
  std::string kind;  ///< "model", "dataset" or "space" of the Hub, "url", "packed"
  std::string name;  ///< "org/name", the address, or the file's name
  std::string path;  ///< the directory or file
  std::uint64_t bytes = 0;
  std::int64_t last_used = 0;  ///< seconds since 1970; by the times of its files
  bool in_use = false;         ///< another process is fetching it now
};

/// Everything in the Hub's cache at `hub_directory` and in Ingot's own at `own_directory`, what was used last
/// first. A directory that does not exist holds nothing.
std::vector<CacheEntry> list_cache(const std::string& hub_directory, const std::string& own_directory);

/// The entries that `name` means: "org/name" (also "hf://org/name"), an address, a file's name. InvalidConfig
/// where nothing has the name, with the name that was meant.
std::vector<CacheEntry> find_entries(const std::vector<CacheEntry>& entries, std::string_view name);

/// Those to remove, used longest ago first, so that the others take at most `max_bytes`. Entries that are in
/// use stay.
std::vector<CacheEntry> choose_to_prune(std::vector<CacheEntry> entries, std::uint64_t max_bytes);

/// Deletes an entry from the disk. Whoever reads the cache meanwhile sees all of it or nothing. IoError where
/// it is in use or cannot be deleted.
void remove_entry(const CacheEntry& entry);

}  // namespace ingot::hub
