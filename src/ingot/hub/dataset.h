#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ingot::hub {

/// What is wanted of a data set on the Hub.
struct DatasetRequest {
  std::string name;      ///< hf://datasets/org/name[@revision], its page's address, or org/name
  std::string revision;  ///< a branch, tag or commit; empty: the name's, or main
  std::string config;    ///< which of its tables; empty: the default
  std::string split;     ///< "train", "test", "train_sft" ...; empty: train
  std::vector<std::string> data_files;  ///< shell patterns instead of config and split
};

/// Whether the text names a data set on the Hub rather than a path that exists.
bool is_hub_dataset(const std::string& name);

/// The files of a data set that hold a split, out of all paths of its repository: those that `data_files` or
/// the README's metadata name, else by the words in their names, as the package `datasets` reads them. The
/// rest of a repository that names no split is "train". Empty where there is no file of records or text.
/// InvalidConfig that lists what there is where the table or the split is not known.
std::vector<std::string> select_dataset_files(const std::vector<std::string>& paths, std::string_view readme,
                                              const DatasetRequest& request);

/// Paths of those files in the Hub's cache. With "hf://" or an address they are fetched first, if need be;
/// a data set that only code of its own can read, from the Hub's conversion to Parquet. Without, they are
/// looked for in the cache alone, and the error says how to fetch them. HttpError, IoError, InvalidConfig.
std::vector<std::string> resolve_dataset(const DatasetRequest& request);

}  // namespace ingot::hub
