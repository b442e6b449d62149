// A state directory made for one test, a run in it, and `stoker` called as a function on it; also a
// daemon's socket with scripted answers.
#pragma once

#include <cstdlib>
#include <doctest/doctest.h>
#include <filesystem>
#include <fstream>
#include <functional>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <thread>

#include "cli/application.hpp"
#include "common/os/fd.hpp"
#include "common/os/files.hpp"
#include "wire/site.hpp"
#include "wire/socket.hpp"
#include "wire/status.hpp"

namespace stoker::cli::test {

struct Said {
  int code = 0;
  std::string out, err;
};

class Site {
 public:
  Site() {
    char name[] = "/tmp/stoker-cli-XXXXXX";
    folder_ = ::mkdtemp(name);
    std::filesystem::create_directories(folder_ + "/state/published");
    std::filesystem::create_directories(directory() + "/switch");
  }
  ~Site() { std::filesystem::remove_all(folder_); }
  Site(const Site&) = delete;
  Site& operator=(const Site&) = delete;

  [[nodiscard]] const std::string& folder() const { return folder_; }
  [[nodiscard]] std::string state() const { return folder_ + "/state"; }
  [[nodiscard]] std::string directory() const { return folder_ + "/hello"; }

  void write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path, std::ios::binary) << text;
  }
  [[nodiscard]] std::string read(const std::string& path) const {
    auto text = os::read_file(path);
    return text ? *text : "";
  }

  void publish(const wire::StatusDocument& status) const {
    wire::SiteDocument site;
    site.runs.push_back({"hello", directory()});
    write(state() + "/published/site.json", to_json_text(site));
    write(directory() + "/status.json", to_json_text(status));
  }
  void publish_events(const std::vector<wire::PublishedEvent>& events) const {
    std::string text;
    for (const auto& e : events) text += to_json_text(e) + "\n";
    write(directory() + "/events.jsonl", text);
  }

  Said stoker(std::vector<std::string> arguments,
              std::map<std::string, std::string> environment = {}) const {
    Said said;
    Console console([&](std::string_view t) { said.out += t; },
                    [&](std::string_view t) { said.err += t; });
    if (!environment.contains("STOKER_STATE")) environment["STOKER_STATE"] = state();
    Context context{console, "", std::move(environment)};
    said.code = run(arguments, context);
    return said;
  }

 private:
  std::string folder_;
};

// Listens on <state>/stokerd.sock and answers each line through `answer`; "" = never answers.
class FakeDaemon {
 public:
  FakeDaemon(const std::string& state, std::function<std::string(const wire::Request&)> answer)
      : path_(state + "/stokerd.sock"), answer_(std::move(answer)) {
    listener_.reset(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path_.copy(address.sun_path, sizeof address.sun_path - 1);
    REQUIRE(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    REQUIRE(::listen(listener_.get(), 8) == 0);
    thread_ = std::thread([this] { serve(); });
  }
  ~FakeDaemon() {
    ::shutdown(listener_.get(), SHUT_RDWR);
    thread_.join();
    std::filesystem::remove(path_);
  }

 private:
  void serve() {
    std::vector<os::Fd> silent;
    for (;;) {
      os::Fd fd(::accept(listener_.get(), nullptr, nullptr));
      if (!fd) return;
      std::string line;
      char c = 0;
      while (::recv(fd.get(), &c, 1, 0) == 1 && c != '\n') line += c;
      const auto request = from_json_text<wire::Request>(line, "request");
      const std::string reply = request ? answer_(*request) : "";
      if (reply.empty())
        silent.push_back(std::move(fd));
      else
        ::send(fd.get(), reply.data(), reply.size(), MSG_NOSIGNAL);
    }
  }

  std::string path_;
  std::function<std::string(const wire::Request&)> answer_;
  os::Fd listener_;
  std::thread thread_;
};

inline std::string reply(bool ok, const std::string& message) {
  return to_json_text(wire::Response{1, ok, message, {}}) + "\n";
}

inline wire::StatusDocument training_status() {
  wire::StatusDocument s;
  s.run = "hello";
  s.state = "training";
  s.since = "2026-05-01T03:00:00Z";
  s.published = "2026-05-01T04:00:00Z";
  s.reason = "first iteration of generation 2 after 12s";
  s.job = "12_4";
  s.job_state = "RUNNING";
  s.generation = 2;
  s.attempt = 1;
  s.nodes = {"n01", "n02"};
  s.iteration = 12500;
  s.total = 50000;
  s.consumed_samples = 400000;
  s.phase = "iteration";
  s.loss = 2.5;
  s.learning_rate = 6e-4;
  s.step_s = 2;
  s.step_norm_s = 1.6;
  s.tflops = 150;
  s.loss_history = {9, 7, 5, 4, 3, 2.75, 2.5};
  s.checkpoint = wire::StatusCheckpoint{12000, 800};
  s.restarts = 3;
  s.budget = {17, 20, 1, 3};
  s.eta_s = 60000;
  return s;
}

inline wire::PublishedEvent event(std::uint64_t seq, const std::string& time,
                                  const std::string& decision, const std::string& reason) {
  wire::PublishedEvent e;
  e.seq = seq;
  e.time = time;
  e.run = "hello";
  e.kind = "tick";
  e.decision = decision;
  e.reason = reason;
  e.event = Json{{"kind", "tick"}};
  return e;
}

}  // namespace stoker::cli::test
