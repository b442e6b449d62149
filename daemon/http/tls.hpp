// Tls: what lets the page be read beyond loopback: a certificate with its key, TLS 1.2 and newer.
// Both files may be renewed while the daemon runs, by any tool that renews certificates on the
// host.
#pragma once

#include <functional>
#include <memory>
#include <semaphore>
#include <string>
#include <string_view>

#include <boost/asio/ssl/context.hpp>

#include "common/lanes.hpp"
#include "common/result.hpp"
#include "common/time.hpp"

namespace stoker::daemon {

struct TlsFiles {
  std::string certificate;  // PEM, with the chain below it
  std::string key;          // PEM without a passphrase, of our user or root, unreadable for others
};

class Tls {
 public:
  using Context = boost::asio::ssl::context;
  using Notice = std::function<void(const std::string&)>;

  // Errors: a file cannot be read, others can read the key, key and certificate do not belong
  // together, the certificate has ended. `notice` receives renewals that worked or did not.
  static Result<std::shared_ptr<Tls>> open(TlsFiles files, Notice notice);

  // For the next connection. Files that changed are read again, checked once in `pause`; while
  // the new ones do not work the old ones stay. They are read by a thread of their own, as their
  // file system may not answer; one that answers within 50 ms counts for this connection.
  std::shared_ptr<Context> context(Instant now, Duration pause = 60s);

 private:
  Tls(TlsFiles files, Notice notice, std::shared_ptr<Context> context);
  TlsFiles files_;
  Notice notice_;
  std::shared_ptr<Context> context_;
  struct Look {
    std::string seen;  // what says that a file is another one
    std::shared_ptr<Context> renewed;
    std::string trouble;  // why the new files do not work
  };
  static Result<Look> look(const TlsFiles& files, const std::string& before);
  void take_looks();

  std::string seen_;
  Instant looked_;
  std::counting_semaphore<> news_{0};
  Lanes<Look> looks_{[this] { news_.release(); }};
};

// Whether the certificate is for this name or address (without a port).
bool certificate_is_for(Tls::Context& context, const std::string& host);

}  // namespace stoker::daemon
