#include "ingot/hub/libcurl.h"

#include <array>

#include "ingot/base/error.h"
#include "ingot/base/shared_library.h"

namespace ingot::hub {
namespace {

Libcurl open_libcurl() {
  const std::array<std::string, 1> name{"libcurl.so.4"};
  SharedLibrary library(name);
  Libcurl found;
  library.find(found.global_init, "curl_global_init");
  library.find(found.easy_init, "curl_easy_init");
  library.find(found.easy_cleanup, "curl_easy_cleanup");
  library.find(found.easy_reset, "curl_easy_reset");
  library.find(found.easy_setopt, "curl_easy_setopt");
  library.find(found.easy_getinfo, "curl_easy_getinfo");
  library.find(found.easy_perform, "curl_easy_perform");
  library.find(found.easy_strerror, "curl_easy_strerror");
  library.find(found.slist_append, "curl_slist_append");
  library.find(found.slist_free_all, "curl_slist_free_all");
  library.find(found.getdate, "curl_getdate");
  library.find(found.free, "curl_free");
  library.find(found.url, "curl_url");
  library.find(found.url_cleanup, "curl_url_cleanup");
  library.find(found.url_get, "curl_url_get");
  library.find(found.url_set, "curl_url_set");
  INGOT_CHECK(library.problem().empty(),
              Error("the network cannot be used: " + library.problem() +
                    "; install libcurl 7.85 or newer (on Debian: apt-get install libcurl4)"));
  INGOT_CHECK(found.global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK, Error("libcurl cannot be set up"));
  return found;
}

}  // namespace

const Libcurl& libcurl() {
  static const Libcurl found = open_libcurl();
  return found;
}

}  // namespace ingot::hub
