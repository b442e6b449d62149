// Whose socket lies at a path: a daemon that ends removes its own alone.
#include "daemon/socket/socket_file.hpp"

#include <doctest/doctest.h>
#include <filesystem>

#include <boost/asio.hpp>

#include "common/os/files.hpp"
#include "daemon/http/http_server.hpp"
#include "daemon/state/lease.hpp"
#include "tests/folder.hpp"

using namespace stoker;
using namespace stoker::daemon;
using stoker::testing::Folder;

TEST_CASE("http: a path that another daemon has by now -> its socket stays when we end") {
  const Folder folder;
  boost::asio::io_context io;
  const auto nothing = HttpServer::Render([](const WebRequest&, const HttpServer::Reply&) {});
  const std::string path = folder / "page.sock";
  HttpServer frozen(io, nothing), next(io, nothing);
  REQUIRE(frozen.listen(path, ""));
  REQUIRE(std::filesystem::remove(path));
  REQUIRE(next.listen(path, ""));
  frozen.close();
  CHECK(os::exists(path));
  next.close();
  CHECK_FALSE(os::exists(path));
}

TEST_CASE("lease: a process that is not there -> gone; in another namespace of pids -> unknown") {
  Lease lease = our_lease(Epoch(1));
  CHECK_FALSE(is_owner_gone(lease));
  lease.started += 1;  // another process had this pid
  CHECK(is_owner_gone(lease));
  Lease elsewhere = lease;
  elsewhere.pid_namespace += 1;
  CHECK_FALSE(is_owner_gone(elsewhere));
  lease.pid_namespace = 0;  // written by an older version
  CHECK(is_owner_gone(lease));
}
