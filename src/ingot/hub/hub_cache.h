#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

// The layout of huggingface_hub: https://huggingface.co/docs/huggingface_hub/guides/manage-cache

namespace ingot::hub {

/// A repository on the Hub, of a model or a data set, at a revision (branch, tag or commit).
struct HubRepo {
  std::string id;  ///< "org/name", or "name" for the few that have no owner
  std::string revision = "main";
  std::string file;  ///< of the repository; empty: the whole of it
  bool dataset = false;
};

/// Reads "org/name", "org/name@revision", "hf://org/name@revision/file", and "hf://datasets/org/name". A '/'
/// in a revision is written %2F.
/// InvalidConfig where it is none of these.
HubRepo parse_hub_repo(std::string_view text);
/// Whether the text could be "org/name", and nothing else.
bool looks_like_hub_repo(std::string_view text);

/// The layout of a cache directory. Reading never needs the network.
class HubCache {
 public:
  explicit HubCache(std::string directory) : directory_(std::move(directory)) {}

  const std::string& directory() const { return directory_; }
  std::string repo_folder(const HubRepo& repo) const;
  std::string blob(const HubRepo& repo, std::string_view etag) const;
  std::string lock(const HubRepo& repo, std::string_view etag) const;
  std::string snapshot(const HubRepo& repo, std::string_view commit) const;

  /// The commit that a revision meant when it was last fetched; nothing where it never was.
  std::optional<std::string> commit_of(const HubRepo& repo) const;
  /// The directory of that commit's files, or the path of `repo.file` in it; nothing where it is not there.
  std::optional<std::string> find(const HubRepo& repo) const;

  /// A file that the snapshot of find() lacks, because a download was interrupted; nothing where it has all
  /// that is known of it (missing_file()), or `repo.file` is named.
  std::optional<std::string> missing(const HubRepo& repo) const;

  /// Notes, beside the locks, which files a snapshot is going to have, until end() finds all of
  /// them there.
  void begin(const HubRepo& repo, const std::string& commit, const std::vector<std::string>& files) const;
  void end(const HubRepo& repo, const std::string& commit) const;
  /// Notes what a revision means now.
  void write_ref(const HubRepo& repo, const std::string& commit) const;
  /// Puts a blob that is there into a snapshot: a relative link, or the file itself where links cannot be
  /// made (or HF_HUB_DISABLE_SYMLINKS is set).
  void link(const HubRepo& repo, const std::string& commit, const std::string& file,
            const std::string& etag) const;
  /// Makes the directory, with the CACHEDIR.TAG that tells backups to leave it out.
  void prepare() const;

 private:
  std::string contents(const HubRepo& repo, std::string_view commit) const;
  std::string directory_;
};

/// Whether a name that a server gave may become a path below a directory: relative, no "..", no empty part,
/// no backslash or control character.
bool is_safe_relative_path(std::string_view path);
/// 40 hexadecimal digits.
bool is_commit(std::string_view text);

}  // namespace ingot::hub
