// A file system that lies, for LD_PRELOAD: the calls on files below $LYING_ROOT are counted, and
// one of them, the $LYING_CALL-th, fails as $LYING_HOW says. At the end the kind of every call is
// written to $LYING_LOG, one letter each (kKinds), so that the test knows what can fail how.
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <mutex>
#include <set>
#include <string>
#include <sys/stat.h>
#include <unistd.h>

namespace {

template <class F>
F real(const char* name) {
  return reinterpret_cast<F>(::dlsym(RTLD_NEXT, name));
}

struct Plan {
  std::string root, how, log;
  long call = -1;
  Plan() {
    const auto text = [](const char* name) {
      const char* value = std::getenv(name);
      return std::string(value != nullptr ? value : "");
    };
    root = text("LYING_ROOT");
    how = text("LYING_HOW");
    log = text("LYING_LOG");
    if (const auto number = text("LYING_CALL"); !number.empty()) call = std::stol(number);
  }
  ~Plan() {
    if (log.empty()) return;
    const int fd = real<int (*)(const char*, int, ...)>("open")(log.c_str(),
                                                                O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (fd < 0) return;
    real<ssize_t (*)(int, const void*, size_t)>("write")(fd, kinds.data(), kinds.size());
    real<int (*)(int)>("close")(fd);
  }
  std::mutex mutex;
  std::string kinds;
  std::array<bool, 4096> ours{};  // descriptors
  std::set<DIR*> folders;
};

Plan& plan() {
  static Plan* const one = [] {
    static Plan made;
    return &made;
  }();
  return *one;
}

bool is_below(const char* path) {
  return path != nullptr && !plan().root.empty() &&
         std::strncmp(path, plan().root.c_str(), plan().root.size()) == 0;
}
bool is_ours(int fd) {
  return fd >= 0 && static_cast<std::size_t>(fd) < plan().ours.size() &&
         plan().ours[static_cast<std::size_t>(fd)];
}
void note(int fd, bool ours) {
  if (fd >= 0 && static_cast<std::size_t>(fd) < plan().ours.size())
    plan().ours[static_cast<std::size_t>(fd)] = ours;
}

enum class Fault { None, Error, Short, Lost, Stale };

// Counts a call of this kind, and says what happens to it; with Error errno is set.
Fault next(char kind) {
  const std::scoped_lock lock(plan().mutex);
  plan().kinds.push_back(kind);
  if (static_cast<long>(plan().kinds.size()) - 1 != plan().call) return Fault::None;
  const std::string& how = plan().how;
  if (how == "short") return Fault::Short;
  if (how == "lost") return Fault::Lost;
  if (how == "stale") return Fault::Stale;
  errno = how == "ENOSPC" ? ENOSPC : how == "EMFILE" ? EMFILE : how == "ESTALE" ? ESTALE : EIO;
  return Fault::Error;
}

int open_as(const char* name, const char* path, int flags, mode_t mode) {
  const auto call = real<int (*)(const char*, int, ...)>(name);
  if (!is_below(path)) return call(path, flags, mode);
  if (next((flags & O_CREAT) != 0 ? 'c' : 'o') == Fault::Error) return -1;
  const int fd = call(path, flags, mode);
  note(fd, true);
  return fd;
}

mode_t mode_of(int flags, va_list arguments) {
  return (flags & (O_CREAT | O_TMPFILE)) != 0 ? static_cast<mode_t>(va_arg(arguments, int)) : 0;
}

template <class Call>
ssize_t transfer(char kind, int fd, std::size_t size, const Call& call) {
  if (!is_ours(fd)) return call(size);
  switch (next(kind)) {
    case Fault::Error: return -1;
    case Fault::Short: return call(size > 1 ? size / 2 : size);
    default: return call(size);
  }
}

// An attribute cache that has not heard of the file's last growth.
template <class Info>
int look(bool ours, Info* info, int result) {
  if (!ours) return result;
  switch (next('t')) {
    case Fault::Error: return -1;
    case Fault::Stale:
      if (result == 0 && S_ISREG(info->st_mode)) info->st_size /= 2;
      return result;
    default: return result;
  }
}

template <class Call>
int change(char kind, bool ours, const Call& call) {
  if (!ours) return call();
  switch (next(kind)) {
    case Fault::Error: return -1;
    case Fault::Lost:  // it is done, but the answer got lost on its way
      if (call() == 0) errno = EIO;
      return -1;
    default: return call();
  }
}

}  // namespace

#define LYING_EXPORT extern "C" __attribute__((visibility("default")))

#define LYING_OPEN(name)                                    \
  LYING_EXPORT int name(const char* path, int flags, ...) { \
    va_list arguments;                                      \
    va_start(arguments, flags);                             \
    const mode_t mode = mode_of(flags, arguments);          \
    va_end(arguments);                                      \
    return open_as(#name, path, flags, mode);               \
  }
LYING_OPEN(open)
LYING_OPEN(open64)

LYING_EXPORT int close(int fd) {
  note(fd, false);
  return real<int (*)(int)>("close")(fd);
}

LYING_EXPORT ssize_t read(int fd, void* buffer, size_t size) {
  return transfer('r', fd, size, [&](std::size_t n) {
    return real<ssize_t (*)(int, void*, size_t)>("read")(fd, buffer, n);
  });
}
LYING_EXPORT ssize_t write(int fd, const void* buffer, size_t size) {
  return transfer('w', fd, size, [&](std::size_t n) {
    return real<ssize_t (*)(int, const void*, size_t)>("write")(fd, buffer, n);
  });
}
#define LYING_AT(name, kind, pointer)                                                  \
  LYING_EXPORT ssize_t name(int fd, pointer buffer, size_t size, off_t at) {           \
    return transfer(kind, fd, size, [&](std::size_t n) {                               \
      return real<ssize_t (*)(int, pointer, size_t, off_t)>(#name)(fd, buffer, n, at); \
    });                                                                                \
  }
LYING_AT(pread, 'r', void*)
LYING_AT(pread64, 'r', void*)
LYING_AT(pwrite, 'w', const void*)
LYING_AT(pwrite64, 'w', const void*)

#define LYING_FD(name)                                                              \
  LYING_EXPORT int name(int fd) {                                                   \
    return change('f', is_ours(fd), [&] { return real<int (*)(int)>(#name)(fd); }); \
  }
LYING_FD(fsync)
LYING_FD(fdatasync)

#define LYING_TRUNCATE(name)                                                                     \
  LYING_EXPORT int name(int fd, off_t size) noexcept {                                           \
    return change('u', is_ours(fd), [&] { return real<int (*)(int, off_t)>(#name)(fd, size); }); \
  }
LYING_TRUNCATE(ftruncate)
LYING_TRUNCATE(ftruncate64)

#define LYING_TWO(name)                                                                      \
  LYING_EXPORT int name(const char* from, const char* to) noexcept {                         \
    return change('n', is_below(to),                                                         \
                  [&] { return real<int (*)(const char*, const char*)>(#name)(from, to); }); \
  }
#undef rename
LYING_TWO(rename)
LYING_TWO(link)

LYING_EXPORT int mkdir(const char* path, mode_t mode) noexcept {
  return change('m', is_below(path),
                [&] { return real<int (*)(const char*, mode_t)>("mkdir")(path, mode); });
}

#define LYING_STAT(name, type)                                                \
  LYING_EXPORT int name(const char* path, struct type* info) noexcept {       \
    return look(is_below(path), info,                                         \
                real<int (*)(const char*, struct type*)>(#name)(path, info)); \
  }
LYING_STAT(stat, stat)
LYING_STAT(lstat, stat)
LYING_STAT(stat64, stat64)
LYING_STAT(lstat64, stat64)
#define LYING_FSTAT(name, type)                                                        \
  LYING_EXPORT int name(int fd, struct type* info) noexcept {                          \
    return look(is_ours(fd), info, real<int (*)(int, struct type*)>(#name)(fd, info)); \
  }
LYING_FSTAT(fstat, stat)
LYING_FSTAT(fstat64, stat64)

LYING_EXPORT DIR* opendir(const char* path) {
  const auto call = real<DIR* (*)(const char*)>("opendir");
  if (!is_below(path)) return call(path);
  if (next('o') == Fault::Error) return nullptr;
  DIR* folder = call(path);
  plan().folders.insert(folder);
  return folder;
}
LYING_EXPORT int closedir(DIR* folder) {
  plan().folders.erase(folder);
  return real<int (*)(DIR*)>("closedir")(folder);
}
#define LYING_READDIR(name, type)                                                      \
  LYING_EXPORT struct type* name(DIR* folder) {                                        \
    if (plan().folders.count(folder) > 0 && next('d') == Fault::Error) return nullptr; \
    return real<struct type* (*)(DIR*)>(#name)(folder);                                \
  }
LYING_READDIR(readdir, dirent)
LYING_READDIR(readdir64, dirent64)
