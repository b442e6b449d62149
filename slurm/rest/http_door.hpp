// HttpDoor: slurmrestd over HTTP, through libcurl: a Unix socket, https, or http to this host; no
// redirects, no proxy for http, certificates are checked. In clear text the token goes to root, to
// ourselves or to a user of the system alone (common/os/listener.hpp). The token's file is read for
// each request, so that a renewed token needs no restart.
#pragma once

#include "core/supply/rest_access.hpp"
#include "slurm/rest/rest_door.hpp"

namespace stoker::slurm {

class HttpDoor final : public RestDoor {
 public:
  HttpDoor(core::RestAccess access, std::string user)
      : access_(std::move(access)), user_(std::move(user)) {}
  RestAnswer ask(const RestRequest& request, const Take& take) override;
  [[nodiscard]] std::string name() const override { return access_.url; }

 private:
  core::RestAccess access_;
  std::string user_;
};

// The token in a file: alone, or as scontrol token prints it ("SLURM_JWT=…").
Result<std::string> read_token(const std::string& file);
// When a JSON web token ends; none: it does not say.
std::optional<WallTime> token_ends(std::string_view token);

}  // namespace stoker::slurm
