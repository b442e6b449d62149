#include "embedded/store.hpp"

#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/random.h>

#include "common/hash.hpp"

namespace stoker::embedded {
namespace {

constexpr int kSchema = 1;
constexpr int kApplication = 0x73746b6c;  // "stkl"

constexpr const char* kCreate = R"(
CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE node(name TEXT PRIMARY KEY, body TEXT NOT NULL) STRICT;
CREATE TABLE job(id INTEGER PRIMARY KEY, token TEXT NOT NULL UNIQUE, body TEXT NOT NULL) STRICT;
CREATE TABLE task(job INTEGER NOT NULL, task INTEGER NOT NULL, state TEXT NOT NULL,
                  body TEXT NOT NULL, PRIMARY KEY(job, task)) STRICT;
)";

struct Statement {
  sqlite3_stmt* handle = nullptr;
  Statement() = default;
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;
  ~Statement() { sqlite3_finalize(handle); }
};

}  // namespace

struct Store::Impl {
  std::string path;
  sqlite3* db = nullptr;

  ~Impl() { sqlite3_close(db); }

  [[nodiscard]] Unexpected failure(const std::string& what) const {
    return fail(fmt::format("{}: {}", what, db != nullptr ? sqlite3_errmsg(db) : "no memory"), path,
                "free space on its disk, or see the log beside it");
  }
  Status run(const char* sql) const {
    if (sqlite3_exec(db, sql, nullptr, nullptr, nullptr) != SQLITE_OK)
      return failure("cluster database failed");
    return ok();
  }
  Status prepare(Statement& s, const char* sql) const {
    if (sqlite3_prepare_v2(db, sql, -1, &s.handle, nullptr) != SQLITE_OK)
      return failure("cannot read the cluster database");
    return ok();
  }
  // Runs a statement with text and integer parameters in order.
  Status write(const char* sql, const std::vector<std::string>& texts,
               const std::vector<std::uint64_t>& numbers) const {
    Statement s;
    STOKER_TRY_STATUS(prepare(s, sql));
    int at = 1;
    for (const std::uint64_t n : numbers)
      sqlite3_bind_int64(s.handle, at++, static_cast<sqlite3_int64>(n));
    for (const std::string& t : texts)
      sqlite3_bind_text(s.handle, at++, t.data(), static_cast<int>(t.size()), SQLITE_TRANSIENT);
    if (sqlite3_step(s.handle) != SQLITE_DONE) return failure("cannot write the cluster database");
    return ok();
  }
  // Calls `row` with the first column of every row.
  template <class Row>
  Status each(const char* sql, Row row) const {
    Statement s;
    STOKER_TRY_STATUS(prepare(s, sql));
    int rc = 0;
    while ((rc = sqlite3_step(s.handle)) == SQLITE_ROW) {
      const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(s.handle, 0));
      const auto size = static_cast<std::size_t>(sqlite3_column_bytes(s.handle, 0));
      STOKER_TRY_STATUS(row(std::string_view(text != nullptr ? text : "", size)));
    }
    if (rc != SQLITE_DONE) return failure("cannot read the cluster database");
    return ok();
  }

  Status open_file();
  Status create_or_check();
};

Status Store::Impl::open_file() {
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
  if (sqlite3_open_v2(path.c_str(), &db, flags, nullptr) != SQLITE_OK)
    return failure("cannot open the cluster database");
  sqlite3_busy_timeout(db, 5000);
  return run(
      "PRAGMA locking_mode=EXCLUSIVE; PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;"
      "PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON; PRAGMA temp_store=MEMORY;"
      "PRAGMA mmap_size=0; PRAGMA journal_size_limit=4194304; PRAGMA wal_autocheckpoint=256;");
}

Status Store::Impl::create_or_check() {
  std::string version, health;
  STOKER_TRY_STATUS(each("PRAGMA user_version", [&version](std::string_view v) -> Status {
    version = v;
    return ok();
  }));
  if (version == "0") {
    char id[8];
    if (::getrandom(id, sizeof id, 0) != sizeof id)
      return fail(errno_error(errno, "no randomness", path));
    std::uint64_t number = 0;
    for (const char c : id) number = (number << 8) | static_cast<unsigned char>(c);
    const std::string sql = fmt::format(
        "BEGIN IMMEDIATE; {} INSERT INTO meta VALUES('cluster','{}'),('next_id','1');"
        "PRAGMA application_id={}; PRAGMA user_version={}; COMMIT;",
        kCreate, hex64(number), kApplication, kSchema);
    return run(sql.c_str());
  }
  if (version != std::to_string(kSchema))
    return fail("the cluster database is of version " + version + ", this program knows version " +
                    std::to_string(kSchema),
                path, "use the newer stokerd, or move the folder away");
  STOKER_TRY_STATUS(each("PRAGMA quick_check(1)", [&health](std::string_view v) -> Status {
    health = v;
    return ok();
  }));
  if (health != "ok")
    return fail("the cluster database is damaged: " + health, path,
                "move the folder away; jobs that run end by themselves");
  return ok();
}

Store::Store(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Store::~Store() = default;

Result<std::unique_ptr<Store>> Store::open(const std::string& folder) {
  auto impl = std::make_unique<Impl>();
  impl->path = folder + "/cluster.db";
  STOKER_TRY_STATUS(impl->open_file());
  STOKER_TRY_STATUS(impl->create_or_check());
  return std::unique_ptr<Store>(new Store(std::move(impl)));
}

Result<Cluster> Store::load() {
  Cluster cluster;
  const auto& path = impl_->path;
  STOKER_TRY_STATUS(
      impl_->each("SELECT value FROM meta WHERE key='cluster'", [&](std::string_view v) -> Status {
        cluster.id = v;
        return ok();
      }));
  STOKER_TRY_STATUS(
      impl_->each("SELECT value FROM meta WHERE key='next_id'", [&](std::string_view v) -> Status {
        STOKER_TRY(number, from_json_text<std::uint64_t>(v, path));
        cluster.next_id = number;
        return ok();
      }));
  STOKER_TRY_STATUS(impl_->each("SELECT body FROM node", [&](std::string_view v) -> Status {
    STOKER_TRY(node, from_json_text<Node>(v, path));
    cluster.nodes[node.name] = node;
    return ok();
  }));
  STOKER_TRY_STATUS(impl_->each("SELECT body FROM job", [&](std::string_view v) -> Status {
    STOKER_TRY(job, from_json_text<Job>(v, path));
    cluster.jobs[job.id] = job;
    return ok();
  }));
  STOKER_TRY_STATUS(impl_->each("SELECT body FROM task", [&](std::string_view v) -> Status {
    STOKER_TRY(task, from_json_text<Task>(v, path));
    if (cluster.jobs.count(task.id.job) == 0)
      return fail("a task without its job", path, "move the folder away");
    cluster.tasks[task.id] = task;
    return ok();
  }));
  return cluster;
}

Status Store::save(const Cluster& cluster, const Changes& changes) {
  STOKER_TRY_STATUS(impl_->run("BEGIN IMMEDIATE"));
  const auto all = [&]() -> Status {
    STOKER_TRY_STATUS(impl_->write("REPLACE INTO meta VALUES('next_id', ?)",
                                   {std::to_string(cluster.next_id)}, {}));
    for (const NodeName& name : changes.nodes)
      STOKER_TRY_STATUS(impl_->write("REPLACE INTO node VALUES(?, ?)",
                                     {name.text, to_json_text(cluster.nodes.at(name))}, {}));
    for (const std::uint64_t id : changes.jobs) {
      const Job& job = cluster.jobs.at(id);
      STOKER_TRY_STATUS(impl_->write(
          "INSERT INTO job VALUES(?1, ?2, ?3) ON CONFLICT(id) DO UPDATE SET body=excluded.body",
          {job.request.token.text, to_json_text(job)}, {id}));
    }
    for (const JobId& id : changes.tasks) {
      const Task& task = cluster.tasks.at(id);
      STOKER_TRY_STATUS(impl_->write("REPLACE INTO task VALUES(?, ?, ?, ?)",
                                     {std::string(name_of(task.state)), to_json_text(task)},
                                     {id.job, id.task}));
    }
    for (const std::uint64_t id : changes.forgotten) {
      STOKER_TRY_STATUS(impl_->write("DELETE FROM task WHERE job=?", {}, {id}));
      STOKER_TRY_STATUS(impl_->write("DELETE FROM job WHERE id=?", {}, {id}));
    }
    return impl_->run("COMMIT");
  };
  Status done = all();
  if (!done) sqlite3_exec(impl_->db, "ROLLBACK", nullptr, nullptr, nullptr);
  return done;
}

}  // namespace stoker::embedded
