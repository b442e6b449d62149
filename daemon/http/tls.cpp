// Certificates by OpenSSL through Boost.Asio.
#include "daemon/http/tls.hpp"

#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/buffer.hpp>

#include "common/os/fd.hpp"
#include "common/os/files.hpp"
#include "common/os/own_files.hpp"

namespace stoker::daemon {
namespace {

namespace asio = boost::asio;
namespace ssl = boost::asio::ssl;
using Code = boost::system::error_code;
constexpr std::size_t kFileBytes = 1u << 20;

// Of our user or root, and no one else reads it; the path may be a link, as certificate tools make.
Result<std::string> read_key(const std::string& path) {
  const os::Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info {};
  if (!file || ::fstat(file.get(), &info) != 0)
    return fail(errno_error(errno, "cannot read the key", path));
  STOKER_TRY_STATUS(os::check_own(file.get(), path));
  if ((info.st_mode & S_IRWXO) != 0)
    return fail("refused: other users can read the key", path, "chmod 0600, and make a new key");
  return os::read_open_file(file.get(), path, kFileBytes);
}

Result<std::shared_ptr<Tls::Context>> load(const TlsFiles& files) {
  STOKER_TRY(chain, os::read_file(files.certificate, kFileBytes));
  STOKER_TRY(key, read_key(files.key));
  auto context = std::make_shared<Tls::Context>(ssl::context::tls_server);
  SSL_CTX* raw = context->native_handle();
  SSL_CTX_set_min_proto_version(raw, TLS1_2_VERSION);
  SSL_CTX_set_options(raw, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                               SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_NO_TICKET);
  SSL_CTX_set_session_cache_mode(raw, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_mode(raw, SSL_MODE_RELEASE_BUFFERS);
  Code code;
  // Without it OpenSSL asks a terminal.
  context->set_password_callback([](std::size_t, auto) { return std::string(); }, code);
  context->use_certificate_chain(asio::buffer(chain), code);
  if (code)
    return fail("not a certificate in PEM: " + code.message(), files.certificate,
                "give the certificate with its chain");
  context->use_private_key(asio::buffer(key), ssl::context::pem, code);
  ::explicit_bzero(key.data(), key.size());
  if (code)
    return fail("not the key of the certificate: " + code.message(), files.key,
                "give the key of " + files.certificate + ", in PEM, without a passphrase");
  if (X509_cmp_current_time(X509_get0_notAfter(SSL_CTX_get0_certificate(raw))) < 0)
    return fail("the certificate has ended", files.certificate, "renew it");
  return context;
}

std::string print_of(const TlsFiles& files) {
  std::string all;
  for (const std::string& path : {files.certificate, files.key}) {
    struct stat info {};
    if (::stat(path.c_str(), &info) == 0)
      all += fmt::format("{}.{}.{}.{} ", info.st_ino, info.st_size, info.st_mtim.tv_sec,
                         info.st_mtim.tv_nsec);
  }
  return all;
}

}  // namespace

Tls::Tls(TlsFiles files, Notice notice, std::shared_ptr<Context> context)
    : files_(std::move(files)), notice_(std::move(notice)), context_(std::move(context)) {}

Result<std::shared_ptr<Tls>> Tls::open(TlsFiles files, Notice notice) {
  const std::string seen = print_of(files);
  STOKER_TRY(context, load(files));
  std::shared_ptr<Tls> made(new Tls(std::move(files), std::move(notice), context));
  made->seen_ = seen;
  return made;
}

Result<Tls::Look> Tls::look(const TlsFiles& files, const std::string& before) {
  Look found{print_of(files), nullptr, ""};
  if (found.seen == before) return found;
  const auto renewed = load(files);
  if (renewed)
    found.renewed = *renewed;
  else
    found.trouble = renewed.error().message();
  return found;
}

void Tls::take_looks() {
  for (auto& [id, found] : looks_.collect()) {
    if (!found || found->seen == seen_) continue;
    seen_ = found->seen;
    if (found->renewed) context_ = found->renewed;
    notice_(found->renewed ? "the page has a new certificate: " + files_.certificate
                           : "the page keeps its old certificate: " + found->trouble);
  }
}

std::shared_ptr<Tls::Context> Tls::context(Instant now, Duration pause) {
  take_looks();
  if (now - looked_ < pause || looks_.under_way() > 0) return context_;
  looked_ = now;
  while (news_.try_acquire()) continue;  // of a look that came late
  looks_.start(1, "certificate", kNoLimit,
               [files = files_, before = seen_] { return look(files, before); });
  (void)news_.try_acquire_for(50ms);
  take_looks();
  return context_;
}

bool certificate_is_for(Tls::Context& context, const std::string& host) {
  X509* certificate = SSL_CTX_get0_certificate(context.native_handle());
  return !host.empty() && certificate != nullptr &&
         (X509_check_host(certificate, host.data(), host.size(), 0, nullptr) == 1 ||
          X509_check_ip_asc(certificate, host.c_str(), 0) == 1);
}

}  // namespace stoker::daemon
