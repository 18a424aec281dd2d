// The web page: GET / and the files that it consists of.
#include <array>
#include <string>

#include <fmt/format.h>

#include "ingot/serve/api.h"
#include "ingot/serve/assets.h"

namespace ingot::serve {
namespace {

struct PageFile {
  std::string_view name, type;
  std::string_view (*content)();
};

constexpr const char* kScript = "text/javascript; charset=utf-8";

const std::array kPageFiles{PageFile{"style.css", "text/css; charset=utf-8", web_page_assets::style},
                            PageFile{"chat.js", kScript, web_page_assets::chat},
                            PageFile{"message.js", kScript, web_page_assets::message},
                            PageFile{"markdown.js", kScript, web_page_assets::markdown},
                            PageFile{"highlight.js", kScript, web_page_assets::highlight},
                            PageFile{"dom.js", kScript, web_page_assets::dom},
                            PageFile{"store.js", kScript, web_page_assets::store},
                            PageFile{"api.js", kScript, web_page_assets::api},
                            PageFile{"load.js", kScript, web_page_assets::load},
                            PageFile{"timeline.js", kScript, web_page_assets::timeline}};

// The page loads and asks nobody but this server, and nobody may put it into a frame.
void send_file(const std::shared_ptr<Exchange>& exchange, std::string_view type, std::string_view content) {
  exchange->send({.body = std::string(content),
                  .content_type = std::string(type),
                  .headers = {{"Cache-Control", "no-cache"},
                              {"Content-Security-Policy",
                               "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
                               "img-src data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"},
                              {"Referrer-Policy", "no-referrer"},
                              {"X-Content-Type-Options", "nosniff"}}});
}

void page(ApiContext&, const std::shared_ptr<Exchange>& exchange) {
  send_file(exchange, "text/html; charset=utf-8", web_page_assets::page());
}

void page_file(ApiContext&, const std::shared_ptr<Exchange>& exchange) {
  const std::string_view path = exchange->request().path;
  const std::string_view name = path.substr(std::string_view("/page/").size());
  for (const PageFile& file : kPageFiles)
    if (file.name == name) return send_file(exchange, file.type, file.content());
  throw ApiError(404, fmt::format("the web page has no file '{}'", name), {}, "not_found");
}

}  // namespace

// Without a key: a browser shows none before a page asks for it, and the page holds nothing of the model.
std::vector<Route> web_page_routes() {
  return {{"GET", "/", page, true}, {"GET", "/page/", page_file, true}};
}

}  // namespace ingot::serve
