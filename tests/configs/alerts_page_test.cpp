// alerts.page: an address that each message shows as a link.
#include <doctest/doctest.h>

#include "configs/schema/run_schema.hpp"

using namespace stoker;
using namespace stoker::configs;

namespace {

RunConfigFile with_page(const std::string& page) {
  RunSchemaContext context;
  context.file = "run.yaml";
  context.config_path = "/home/alice/run.yaml";
  context.state_directory = "/state";
  return read_run_config("run: hello\ntrain: {command: [a]}\nalerts: {page: \"" + page + "\"}\n",
                         context);
}

}  // namespace

TEST_CASE("alerts.page: http and https -> read; what a link could not hold is refused") {
  CHECK(with_page("https://login1.example.org:9470").policy.alerts.page ==
        "https://login1.example.org:9470");
  CHECK(with_page("http://[::1]:9470/stoker/").errors.empty());
  for (const char* bad : {"login1:9470", "ftp://login1", "https://", "https:///x", "https://a/<b>",
                          "https://a b", "javascript:alert(1)"}) {
    CAPTURE(bad);
    const auto file = with_page(bad);
    REQUIRE(file.errors.size() == 1);
    CHECK(file.errors[0].text().find("page: must be http:// or https://") != std::string::npos);
  }
}
