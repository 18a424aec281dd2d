#pragma once

#include <memory>
#include <string>

#include "ingot/serve/http.h"
#include "ingot/serve/model_pool.h"
#include "ingot/serve/work_queue.h"

namespace ingot::serve {

/// Loads adapters that clients ask for, out of one directory, while requests are answered.
class AdapterLoader {
 public:
  /// `directory`: below which clients' paths are; empty: they may load and unload nothing. InvalidConfig
  /// where it is not there. The pool has to outlive this.
  AdapterLoader(ModelPool& models, const std::string& directory);

  /// Loads the adapter of a path, which counts from the directory, for a model. Answers once it is there, or
  /// with what is wrong with it. ApiError 403 where clients may not, or the path leaves the directory; 404
  /// where nothing is there; 400 for a name that is taken. Throws as ModelPool::lease() does.
  void load(const std::shared_ptr<Exchange>& exchange, const std::string& model, const std::string& name,
            const std::string& path);
  /// Requests that have it go on. ApiError 403 as above, 404 for a name that no adapter has.
  void unload(const std::string& name);
  /// ApiError 403 where clients may not change which adapters there are, or are on.
  void check_allowed() const;

 private:
  std::string confined(const std::string& path) const;

  ModelPool& models_;
  const std::string directory_;  // canonical
  WorkQueue queue_;
};

}  // namespace ingot::serve
