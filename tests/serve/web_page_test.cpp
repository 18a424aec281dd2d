#include <optional>

#include "tests/serve/browser.h"
#include "tests/serve/running_server.h"
#include <gtest/gtest.h>

namespace ingot::serve {
namespace {

using test::Browser;
using test::RunningServer;

std::string header(const ClientResponse& response, std::string_view name) {
  for (const auto& [key, value] : response.headers)
    if (key == name) return value;
  return {};
}

TEST(WebPage, IsServedWithoutAKeyAndLoadsNothingFromElsewhere) {
  const RunningServer server({.access = {.keys = {"secret"}}});
  HttpClient client = server.client();
  const ClientResponse page = client.get("/");
  EXPECT_EQ(page.status, 200);
  EXPECT_EQ(header(page, "content-type"), "text/html; charset=utf-8");
  EXPECT_NE(header(page, "content-security-policy").find("script-src 'self'"), std::string::npos);
  EXPECT_EQ(page.body.find("https://"), std::string::npos);
  EXPECT_EQ(header(client.get("/page/style.css"), "content-type"), "text/css; charset=utf-8");
  EXPECT_EQ(client.get("/page/other.js").status, 404);
  // Every module that a module imports is there.
  std::vector<std::string> files{"chat.js"};
  for (std::size_t i = 0; i < files.size(); ++i) {
    const ClientResponse file = client.get("/page/" + files[i]);
    EXPECT_EQ(file.status, 200) << files[i];
    EXPECT_EQ(header(file, "content-type"), "text/javascript; charset=utf-8");
    constexpr std::string_view kFrom = "from './";
    for (std::size_t at = file.body.find(kFrom); at != std::string::npos;
         at = file.body.find(kFrom, at + 1)) {
      const std::size_t begin = at + kFrom.size();
      const std::string name = file.body.substr(begin, file.body.find('\'', begin) - begin);
      if (std::ranges::find(files, name) == files.end()) files.push_back(name);
    }
  }
  EXPECT_EQ(files.size(), 9U);
}

// One browser for all of it: starting it is what takes time.
TEST(WebPage, ChatsInABrowser) {
  const RunningServer server;
  std::optional<Browser> browser;
  try {
    browser.emplace();
  } catch (const std::exception& error) {
    GTEST_SKIP() << "no browser to test with: " << error.what();
  }
  const auto click = [&](const std::string& selector) {
    browser->evaluate("document.querySelector('" + selector + "').click()");
  };
  const auto press = [&](const std::string& label) {  // the last button of that name
    browser->evaluate("[...document.querySelectorAll('button')].filter((b) => b.textContent === '" + label +
                      "').at(-1).click()");
  };
  const auto text = [&](const std::string& selector) {
    return browser->evaluate("[...document.querySelectorAll('" + selector + "')].map((e) => e.textContent)");
  };
  const auto set = [&](const std::string& selector, const std::string& value) {
    browser->evaluate("{ const e = document.querySelector('" + selector + "'); e.value = '" + value +
                      "'; e.dispatchEvent(new Event('change')); }");
  };
  const std::string idle =
      "document.querySelector('#stop').hidden && document.querySelector('.stats')?.textContent !== ''";
  using Json = Browser::Json;

  browser->call("Page.navigate", {{"url", server.address() + "/"}});
  ASSERT_TRUE(browser->until("document.querySelectorAll('#model option').length === 2"));
  set("[data-setting=temperature]", "0");
  set("#input", "hi");
  click("#send");
  ASSERT_TRUE(browser->until(idle));
  EXPECT_EQ(text(".user .plain"), Json({"hi"}));
  EXPECT_EQ(text(".assistant .text"), Json({"one twz"}));
  EXPECT_EQ(browser->evaluate("localStorage.length"), 2);

  // A changed message has an answer of its own; tokens show what else was possible.
  click("[data-setting=probabilities]");
  press("Edit");  // of the answer
  press("Cancel");
  browser->evaluate(
      "[...document.querySelectorAll('.user button')].find((b) => b.textContent === 'Edit').click()");
  set(".user textarea", "go");
  press("Save and send");
  ASSERT_TRUE(browser->until(idle));
  EXPECT_EQ(text(".user .plain"), Json({"go"}));
  EXPECT_EQ(text(".token"), Json({"o", "n", "e", " ", "t", "w", "z"}));
  browser->evaluate("document.querySelector('.token').dispatchEvent(new Event('focusin', {bubbles: true}))");
  EXPECT_EQ(browser->evaluate("document.querySelectorAll('#alternatives div').length"), 5);
  click("[data-setting=probabilities]");
  press("Retry");
  ASSERT_TRUE(browser->until(idle));
  EXPECT_EQ(text(".assistant .text"), Json({"one twz"}));

  // An answer to a schema; conversations are kept, listed and come back.
  set("[data-setting=schema]", "{\"type\": \"null\"}");
  click("#new");
  set("#input", "no");
  click("#send");
  ASSERT_TRUE(browser->until(idle));
  EXPECT_EQ(text(".assistant .text"), Json({"null"}));
  EXPECT_EQ(text("#conversations .title"), Json({"no", "go"}));
  browser->call("Page.reload");
  ASSERT_TRUE(browser->until("document.querySelectorAll('#conversations .title').length === 2"));
  browser->evaluate("document.querySelectorAll('#conversations .title')[1].click()");
  EXPECT_EQ(text(".user .plain"), Json({"go"}));

  // A message that is stopped while it is written, and one that is deleted.
  set("[data-setting=schema]", "");
  set("[data-setting=temperature]", "5");
  set("#input", "on");
  click("#send");
  click("#stop");
  ASSERT_TRUE(browser->until(idle));
  EXPECT_EQ(text(".assistant .error"), Json({"", ""}));
  press("Delete");
  EXPECT_EQ(text(".message").size(), 3U);

  click("#show-load");
  ASSERT_TRUE(browser->until("document.querySelectorAll('#figures dd').length === 8"));
  // Four answers, and perhaps the one that was stopped: all have ended, and each is a line.
  ASSERT_TRUE(browser->until(
      "fetch('requests').then((response) => response.json()).then(({requests}) => requests.length >= 4 && "
      "document.querySelectorAll('#timeline li').length === requests.length && "
      "[...document.querySelectorAll('#timeline .what')].every((e) => "
      "/^\\d+ → \\d+ tokens, [\\d.]+ s, (stop token|grammar end|cancelled|context "
      "full)$/.test(e.textContent)))"));
  EXPECT_EQ(browser->evaluate("document.querySelectorAll('#timeline .decode').length >= 4"), true);
  EXPECT_EQ(browser->evaluate("document.querySelector('#timeline .who').textContent"),
            "127.0.0.1 · scripted");
  EXPECT_EQ(browser->evaluate("document.querySelector('#no-requests').hidden"), true);
  browser->evaluate("document.querySelector('#load').close()");
  click("#show-settings");
  EXPECT_EQ(browser->evaluate("document.querySelector('#settings').open"), true);
  browser->evaluate("document.querySelector('#settings').close()");
  const Json theme = browser->evaluate("document.documentElement.dataset.theme");
  click("#theme");
  EXPECT_NE(browser->evaluate("document.documentElement.dataset.theme"), theme);
  // What a model writes becomes text, never a part of the page.
  browser->evaluate(
      "import('./page/markdown.js').then(({showMarkdown}) => showMarkdown(document.body, "
      "'<img src=x onerror=alert(1)> [a](javascript:alert(1)) **b**\\n\\n```js\\n</pre>'))");
  EXPECT_EQ(browser->evaluate("document.querySelectorAll('body img, body a').length"), 0);
  EXPECT_EQ(text("body strong"), Json({"b"}));
}

}  // namespace
}  // namespace ingot::serve
