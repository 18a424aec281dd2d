#include "tests/support/web_server.h"
#include <gtest/gtest.h>

namespace ingot::test {

// The server of the tests does what it says.
TEST(WebServer, ServesFilesAndRemembersWhoAsked) {
  WebServer server;
  const std::string url = server.add_file("a.txt", "hello");
  hub::HttpClient client;
  EXPECT_EQ(client.request({.url = url}).body, "hello");
  EXPECT_EQ(client.request({.url = url + "x"}).status, 404);
  EXPECT_EQ(server.count_in_log("/files/a.txt\""), 1);
}

}  // namespace ingot::test
