#!/usr/bin/env python3
"""Every lint rule fails when it is broken: a tiny good tree on which all are silent, then one bad file a rule."""
import contextlib
import io
import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import included
import lint  # noqa: E402
import pictures  # noqa: E402
import purity  # noqa: E402
import safety  # noqa: E402
import schemas  # noqa: E402
import tidy  # noqa: E402

HEAD = "// What this file owns.\n"
TABLE = "".join(f"| `{folder}/` | verb | what | {', '.join(allowed) if allowed else 'anything'} |\n"
                for folder, allowed in lint.layers.LAYERS.items())
GOOD = {
    "docs/architecture.md": TABLE,
    "common/sum.hpp": HEAD + "#pragma once\nint sum(int a, int b);\n",
    "common/sum.cpp": '#include "common/sum.hpp"\n\nint sum(int a, int b) {\n  return a + b;\n}\n',
    "core/twice.cpp": HEAD + '#include "common/sum.hpp"\n\nint twice(int a) {\n  return sum(a, a);\n}\n',
    "tests/core/twice_test.cpp": HEAD + "int nothing();\n",
    "docs/where-to-add.md": "| sum | `common/sum.md` | - | `tests/core` |\n",
    "common/sum.md": "To add: another one\n",
    "dev": "#!/bin/sh\n",
}
BODY = "  ++a;\n"


class Rules(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="stoker-lint-")
        self.addCleanup(self.folder.cleanup)
        self.before = (lint.ROOT, lint.CPP, lint.SCRIPTS, tidy.ROOT, tidy.CLEAN, list(tidy.FLAGS))
        lint.ROOT = self.folder.name
        subprocess.run(["git", "init", "-q", lint.ROOT], check=True)
        for name in (".clang-format", ".clang-tidy"):
            os.symlink(os.path.join(self.before[0], name), os.path.join(lint.ROOT, name))
        tidy.ROOT = lint.ROOT
        tidy.CLEAN = os.path.join(lint.ROOT, "build", "clean")
        tidy.FLAGS[:] = [flag.replace(self.before[3], lint.ROOT) for flag in tidy.FLAGS]
        for name, text in GOOD.items():
            self.write(name, text)

    def tearDown(self):
        lint.ROOT, lint.CPP, lint.SCRIPTS, tidy.ROOT, tidy.CLEAN, tidy.FLAGS[:] = self.before

    def write(self, name, text, mode=0o644):
        path = os.path.join(lint.ROOT, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        os.chmod(path, mode)
        lint.CPP = lint.tracked(".cpp", ".hpp", ".cu")
        lint.SCRIPTS = lint.tracked(".py", ".sh") + ["dev"]

    def breaks(self, rule, name, text, says):
        """The rule is silent on the good tree and names the file once the bad one is there."""
        self.assertEqual(list(rule()), [])
        self.write(name, text)
        found = list(rule())
        self.assertTrue(any(name in line and says in line for line in found), found)

    def test_forbidden_arrow(self):
        self.write("daemon/loop.hpp", HEAD)
        self.breaks(lint.rule_layering, "core/bad.cpp", HEAD + '#include "daemon/loop.hpp"\n', "may not include daemon/")

    def test_torch_outside_its_home(self):
        self.breaks(lint.rule_layering, "worker/agent/bad.cpp", HEAD + "#include <torch/torch.h>\n", "LibTorch")

    def test_library_that_ours_wraps(self):
        self.breaks(lint.rule_layering, "core/bad.cpp", HEAD + "#include <nlohmann/json.hpp>\n", "common/json.hpp alone")

    def test_every_rule_is_run(self):
        written = [name for name in vars(lint) if name.startswith("rule_")]
        self.assertEqual([rule.__name__ for rule in lint.all_rules()], written)
        self.assertIn("rule_printing", written)

    def test_file_that_two_tests_share(self):
        bad = HEAD + 'const auto path = std::filesystem::temp_directory_path() / "stoker-x";\n'
        self.breaks(lint.rule_test_folders, "tests/core/bad_test.cpp", bad, "testing::Folder")

    def test_name_in_tmp_that_can_be_foreseen(self):
        self.breaks(lint.rule_foreseen_names, "dev", '#!/bin/sh\ncmake . >"/tmp/x.$$"\n', "mktemp")
        for line, found in (("cat >> /tmp/x", 1), ("rm -f /tmp/x-$$", 1), ("output=$(mktemp)", 0)):
            self.write("dev", "#!/bin/sh\n" + line + "\n")
            self.assertEqual(len(list(lint.rule_foreseen_names())), found, line)
        self.write("dev", "#!/bin/sh\n")
        for name, line, found in (("tests/bad.py", 'venv = os.path.join(tempfile.gettempdir(), f"stoker-venv-{os.getuid()}")', 1),
                                  ("tests/bad.py", 'with open("/tmp/.stoker-test-users", "a") as lock:', 1),
                                  ("tests/bad.py", 'with tempfile.TemporaryDirectory(dir="/tmp") as folder:', 0),
                                  ("tests/e2e/strangers.py", 'trap = f"/tmp/stoker-{os.getuid()}"', 0),
                                  ("core/bad.cpp", 'std::ofstream("/tmp/stoker.log");', 1),
                                  ("core/bad.cpp", 'auto path = std::filesystem::temp_directory_path() / "stoker";', 1),
                                  ("core/bad.cpp", 'char name[] = "/tmp/stoker-cli-XXXXXX";', 0)):
            self.write(name, (HEAD if name.endswith(".cpp") else "") + line + "\n")
            lint.CPP, lint.SCRIPTS = [n for n in (name,) if n.endswith(".cpp")], [n for n in (name,) if n.endswith(".py")]
            self.assertEqual(len(list(lint.rule_foreseen_names())), found, line)

    def test_folder_without_a_row(self):
        self.breaks(lint.rule_layering, "extra/bad.cpp", HEAD, "no row")

    def test_table_differs_from_the_page(self):
        other = TABLE.replace("`wire/` | verb | what | common |", "`wire/` | verb | what | daemon |")
        self.breaks(lint.rule_layer_table, "docs/architecture.md", other, "wire/ may include daemon")

    def test_place_that_is_not_there(self):
        row = "| sum | `common/sum.md` | `core/gone.cpp` | `tests/core` |\n"
        self.breaks(lint.rule_where_to_add, "docs/where-to-add.md", row, "core/gone.cpp does not exist")

    def test_place_without_a_comment(self):
        self.breaks(lint.rule_where_to_add, "common/sum.md", "a sum\n", "has no comment")

    def test_block_that_is_not_its_file(self):
        block = "<!-- file: common/run.yaml -->\n```yaml\n{}\n```\n"
        self.write("common/run.yaml", "run: a\n")
        self.write("docs/recipes.md", block.format("run: a"))
        self.breaks(lint.rule_included, "docs/recipes.md", block.format("run: b"), "its block is not common/run.yaml")
        self.assertEqual(included.written(block.format("run: b"), lambda _: "run: a\n"), block.format("run: a"))
        self.write("docs/recipes.md", block.format("run: a").replace("run.yaml", "gone.yaml"))
        self.assertIn("gone.yaml does not exist", "".join(lint.rule_included()))
        self.write("docs/recipes.md", block.format("run: a").replace("```yaml", "text"))
        self.assertIn("has no block below it", "".join(lint.rule_included()))

    def test_long_file(self):
        self.breaks(lint.rule_sizes, "core/bad.cpp", HEAD + "int x();\n" * 400, "401 lines")

    def test_long_script(self):
        self.breaks(lint.rule_sizes, "tests/bad.py", "x = 1\n" * 401, "401 lines")

    def test_long_line(self):
        self.breaks(lint.rule_sizes, "core/bad.cpp", HEAD + "// " + "x" * 98 + "\n", "101 columns")

    def test_mark_of_a_merge(self):
        self.breaks(lint.rule_conflicts, "docs/bad.md", "# A\n\n" + "<" * 7 + " HEAD\nb\n", "docs/bad.md:3")

    def test_long_line_of_a_transcript(self):
        self.breaks(lint.rule_transcripts, "tests/golden/bad.txt", "# " + "word " * 24 + "\n", "122 columns")

    def test_long_function(self):
        self.breaks(lint.rule_functions, "core/bad.cpp", HEAD + "void f(int a) {\n" + BODY * 69 + "}\n", "71 lines")

    def test_long_function_with_a_long_signature(self):
        self.breaks(lint.rule_functions, "core/bad.cpp", HEAD + "void f(int a,\n       int b) {\n" + BODY * 68 + "}\n",
                    "71 lines")

    def test_a_table_is_no_function(self):
        self.write("core/table.cpp", HEAD + "const int kTable[] = {\n" + "    1,\n" * 90 + "};\n")
        self.assertEqual(list(lint.rule_functions()), [])

    def test_key_without_a_schema(self):
        text = "\nstruct PublishedNode {\n  std::string node;  // its name\n  STOKER_FIELDS(PublishedNode, node)\n};\n"
        self.breaks(lint.rule_schemas, "wire/status.hpp", HEAD + text, "docs/schema/node.schema.json")

    def test_schema_of_members(self):
        text = ("\nstruct A {\n  std::vector<std::string> names = {};\n  std::optional<double> a, b;\n"
                "  std::map<std::string, double> by;\n  STOKER_FIELDS(A, names, a,\n                b, by)\n};\n")
        fields = schemas.structs(text)["A"]
        self.assertEqual([name for _, name in fields], ["names", "a", "b", "by"])
        schema = schemas.object_of(fields, [])
        good = {"names": ["x"], "a": None, "b": "nan", "by": {"k": 1}, "added": 3}
        self.assertEqual(list(schemas.mismatches(schema, good)), [])
        bad = {"names": [1], "a": "x", "b": 1, "by": {"k": "1"}}
        self.assertEqual(len(list(schemas.mismatches(schema, bad))), 3)
        self.assertEqual(list(schemas.mismatches(schema, {"names": [], "a": 1, "b": 1})), [": no key by"])

    def test_schema_of_enums_and_arrays(self):
        text = ("template <>\nstruct stoker::EnumNames<stoker::cli::How> {\n  static constexpr std::array names{\"found\", \"asked\"};\n};\n"
                "\nstruct Entry {\n  How how = How::Asked;\n  STOKER_FIELDS(Entry, how)\n};\n"
                "\nstruct InitDocument {\n  std::string source, path;\n  std::vector<init::Entry> entries;\n  STOKER_FIELDS(InitDocument, entries)\n};\n"
                "\nstruct HeldAlert {\n  std::string id;\n  STOKER_FIELDS(HeldAlert, id)\n};\n")
        self.write("cli/show/documents.hpp", HEAD + text)
        made = {os.path.basename(path).split(".")[0]: schemas.json.loads(schema) for path, schema in schemas.documents(lint.ROOT).items()}
        self.assertEqual(set(made), {"init", "held"})
        self.assertEqual(list(schemas.mismatches(made["init"], {"entries": [{"how": "asked"}]})), [])
        self.assertEqual(len(list(schemas.mismatches(made["init"], {"entries": [{"how": "dreamt"}]}))), 1)
        self.assertEqual(list(schemas.mismatches(made["held"], [{"id": "a"}])), [])
        self.assertEqual(list(schemas.mismatches(made["held"], [{"id": "a"}, {}])), ["[1]: no key id"])

    def test_unfinished_mark(self):
        self.breaks(lint.rule_words, "core/bad.cpp", HEAD + "// TO" "DO: the rest\n", "TO" "DO")

    def test_no_head_comment(self):
        self.breaks(lint.rule_head_comment, "core/bad.cpp", "int x();\n", "without a comment")

    def test_header_that_nobody_includes(self):
        self.breaks(lint.rule_dead_headers, "core/bad.hpp", HEAD + "#pragma once\n", "nobody includes it")

    def test_assertion_that_cannot_fail(self):
        self.breaks(lint.rule_assertions, "tests/core/bad_test.cpp", HEAD + "CHECK(" + "true);\n", "CHECK(" + "true)")

    def test_descriptor_that_programs_inherit(self):
        for text, says in (("::open(p, O_RDONLY)", "open() without O_CLOEXEC"), ("::openat(\n    f, p,\n    O_RDONLY)", "openat()"),
                           ("socket(AF_UNIX, SOCK_STREAM, 0)", "SOCK_CLOEXEC"), ("::accept(f, nullptr, nullptr)", "take accept4"),
                           ("::pipe(ends)", "take pipe2"), ("pipe2(ends, O_NONBLOCK)", "O_CLOEXEC"), ("::dup(1)", "F_DUPFD_CLOEXEC"),
                           ('memfd_create("x", 0)', "MFD_CLOEXEC"), ('std::fopen(p, "r")', "fopen()")):
            self.write("core/bad.cpp", HEAD)
            self.breaks(lint.rule_cloexec, "core/bad.cpp", HEAD + f"int f() {{\n  return {text};\n}}\n", says)
        good = ("::open(p, O_RDONLY | O_CLOEXEC)", "Journal::open(path)", "door.accept(peer)", "open(path)", "::pipe2(ends, O_CLOEXEC)",
                "1;  // ::pipe(ends) has no flag", 'std::fopen(p, "re")')
        self.write("core/bad.cpp", HEAD + "".join(f"int f() {{\n  return {text};\n}}\n" for text in good))
        self.write("core/flags.cpp", HEAD + "int f() {\n  int flags = O_WRONLY | O_CLOEXEC;\n  return ::open(p, flags);\n}\n")
        self.assertEqual(list(lint.rule_cloexec()), [])

    def test_mode_and_umask_outside_their_file(self):
        for call in ("::chmod(p, 0600)", "fchmod(f, 0600)", "::umask(0)", "std::filesystem::permissions(p, all)"):
            self.write("core/bad.cpp", HEAD)
            self.breaks(lint.rule_permissions, "core/bad.cpp", HEAD + f"int f() {{\n  return {call};\n}}\n", "sets a mode")
        self.write("core/bad.cpp", HEAD + "// why chmod(2) is not called\nStatus s = os::set_mode(p, 0600);\n")
        self.write(safety.PERMISSIONS_HOME, HEAD + "int f() {\n  return ::umask(0);\n}\n")
        self.assertEqual(list(lint.rule_permissions()), [])

    def test_thread_of_the_agent(self):
        for text in ("std::thread([] {}).detach()", "std::vector<std::jthread> all", "auto f = std::async(std::launch::async, [] {})"):
            self.write("worker/agent/bad.cpp", HEAD)
            self.breaks(lint.rule_threads, "worker/agent/bad.cpp", HEAD + f"void f() {{\n  {text};\n}}\n", "run_aside()")
        self.write("worker/agent/bad.cpp", HEAD + "void f() {\n  std::this_thread::sleep_for(1s);\n  std::thread::hardware_concurrency();\n}\n")
        self.write(safety.THREADS_HOME[1], HEAD + "void f() {\n  std::jthread t([] {});\n}\n")
        self.assertEqual(list(lint.rule_threads()), [])

    def test_shell(self):
        for call in ('popen("ls", "r")', '::sys" "tem(p)'.replace('" "', ""), 'spawn({"/bin/sh", "-c", p})', '::execvp(p, a)'):
            self.write("core/bad.cpp", HEAD)
            self.breaks(lint.rule_shell, "core/bad.cpp", HEAD + f"int f() {{\n  return {call};\n}}\n", "a shell")
        self.write("core/bad.cpp", HEAD + 'int f() {\n  script.line("#!/bin/bash");\n  return ::execve(p, a, e);\n}\n')
        self.assertEqual(list(lint.rule_shell()), [])

    def test_link_that_is_followed_in_a_shared_directory(self):
        for call in ("::open(p, O_RDONLY | O_CLOEXEC)", "os::read_file(path, 4096)"):
            self.write("watch/bad.cpp", HEAD)
            self.breaks(lint.rule_links, "watch/bad.cpp", HEAD + f"int f() {{\n  return {call};\n}}\n", "in a shared directory")
        good = ("::open(p, O_RDONLY | O_NOFOLLOW)", "os::read_own_file(run, name, 4096)", "os::read_file(path, 4096, true)")
        self.write("watch/bad.cpp", HEAD + "".join(f"int f() {{\n  return {call};\n}}\n" for call in good))
        self.write("core/free.cpp", HEAD + "int f() {\n  return ::open(p, O_RDONLY);\n}\n")
        self.assertEqual(list(lint.rule_links()), [])

    def test_printing(self):
        for call in ('std::fprintf(stderr, "%s", t)', 'fmt::print("{}", t)', "std::cout << t", "::write(STDERR_FILENO, t, n)"):
            self.write("core/bad.cpp", HEAD)
            self.breaks(lint.rule_printing, "core/bad.cpp", HEAD + f"void f() {{\n  {call};\n}}\n", "prints without cleaning")
        self.write("core/bad.cpp", HEAD)
        for call in ("console.line(text)", 'context.console.out(fmt::format("{}", run.reason))', "console.raw_error(errors[0])"):
            self.write("cli/bad.cpp", HEAD)
            self.breaks(lint.rule_printing, "cli/bad.cpp", HEAD + f"void f() {{\n  {call};\n}}\n", "may be another's")
        good = ('console.line("no runs")', "console.line(printable(text))", "console.out(dump_json(all))", 'console.say(text)', "tell_stderr(text)")
        self.write("cli/bad.cpp", HEAD + "".join(f"void f() {{\n  {call};\n}}\n" for call in good))
        self.assertEqual(list(lint.rule_printing()), [])

    def test_exceptions_name_files_that_exist_and_need_them(self):
        root = self.before[0]
        for name in [*safety.SHELL_MAY, *safety.FOLLOWS, *safety.PRINTS_MAY, *safety.CONSOLE_MAY, safety.PERMISSIONS_HOME]:
            self.assertTrue(os.path.exists(os.path.join(root, name)), name)

    def test_impure_decider(self):
        for text, says in (("auto t = monotonic_now();", "reads a clock"), ("auto t = std::time(nullptr);", "reads a clock"),
                           ("std::mt19937 random;", "random number"), ("std::mutex mutex;", "threads"), ('auto h = std::getenv("HOME");', "environment"),
                           ("auto t = os::read_file(p, 1);", "files"), ("int f = ::open(p, 0);", "files"),
                           ("std::unordered_map<int, int> m;", "no order"), ("std::map<Node*, int> m;", "no order"),
                           ("double d = std::log(x);", "differs between libraries"), ("    static int calls = 0;", "state beside"),
                           ("#include <thread>", "no header of a decider"), ('#include "common/os/files.hpp"', "files")):
            for folder in ("core", "lead", "recipe"):
                self.write(f"{folder}/bad.cpp", HEAD)
                self.breaks(lint.rule_purity, f"{folder}/bad.cpp", HEAD + text + "\n", says)
                self.write(f"{folder}/bad.cpp", HEAD)
        good = ("double d = std::sqrt(x) + std::floor(x);", "// std::log(x) of monotonic_now()", 'say("::open(p) reads a clock: time(0)");',
                "static constexpr const char* kKind = 1;", "std::map<std::string, Node> m;", "  static const std::vector<int> kNone;",
                "#include <cmath>")
        self.write("core/bad.cpp", HEAD + "\n".join(good) + "\n")
        self.write("watch/free.cpp", HEAD + "std::mutex mutex;\n")
        self.assertEqual(list(lint.rule_purity()), [])

    def test_exceptions_of_deciders_name_files_that_need_them(self):
        for name, what in purity.MAY:
            with open(os.path.join(self.before[0], name), encoding="utf-8") as f:
                text = f.read()
            self.assertTrue(purity.re.search(purity.WORDS[what], text, purity.re.M), name)

    def test_source_that_the_fuzzer_misses(self):
        cmake = "set(patterns common/*.cpp{})\nlist(APPEND targets ${{ROOT}}/core/twice.cpp)  # large\n"
        self.write("common/large.hpp", HEAD + "#pragma once\nint large(int);\nstruct Pile {\n  void add(int);\n};\n")
        self.write("core/large.cpp", '#include "common/large.hpp"\n\nint large(int a) {\n  return a;\n}\n\nvoid Pile::add(int) {}\n')
        self.write("tests/fuzz/targets.cpp", HEAD + '#include "common/large.hpp"\n// large(1) and pile.add(2)\nvoid run(Pile&);\n')
        self.write(lint.fuzz_sources.CMAKE, cmake.format(""))
        self.assertEqual(list(lint.rule_fuzz_sources()), [])  # only its declarations are used
        call = HEAD + '#include "common/large.hpp"\nint run() {\n  return large(1);\n}\n'
        self.write("tests/fuzz/targets.cpp", call)
        self.assertIn("core/large.cpp is missing: tests/fuzz/targets.cpp calls large", list(lint.rule_fuzz_sources())[0])
        self.write("tests/fuzz/targets.cpp", call.replace("large(1)", "pile.add(1)").replace("run()", "run(Pile& pile)"))
        self.assertIn("calls Pile::add", list(lint.rule_fuzz_sources())[0])
        inline = HEAD + '#pragma once\n#include "common/large.hpp"\ninline int wide() {{ return {}large(1); }}\n'
        self.write("tests/fuzz/targets.cpp", HEAD + '#include "common/wide.hpp"\nvoid run(Pile&);\n')
        self.write("common/wide.hpp", inline.format("not_"))
        self.assertEqual(list(lint.rule_fuzz_sources()), [])
        self.write("common/wide.hpp", inline.format(""))
        self.assertIn("core/large.cpp is missing: common/wide.hpp calls large", list(lint.rule_fuzz_sources())[0])
        self.write(lint.fuzz_sources.CMAKE, cmake.format(" core/large.cpp core/gone*.cpp"))
        self.assertEqual(list(lint.rule_fuzz_sources()), [f"{lint.fuzz_sources.CMAKE}: core/gone*.cpp is no file"])

    def test_package_that_is_not_used(self):
        self.write("deploy/debian-packages.txt", "# needed\nlibre2-dev\n")
        self.write("common/sum.cpp", GOOD["common/sum.cpp"] + "#include <re2/re2.h>\n")
        self.breaks(lint.rule_packages, "deploy/debian-packages.txt", "libre2-dev\nlibspdlog-dev\n", "libspdlog-dev is used nowhere")

    def test_words_of_documents_messages_and_comments(self):
        for name, text in (("docs/page.md", "A damaged file is told.\n"), ("core/bad.cpp", HEAD + "// Nobody hears it.\nint a;\n"),
                           ("cli/bad.cpp", HEAD + 'const char* a = "mend the file";\n'),
                           ("tests/bad.py", '"""The words\n\nare made anew.\n"""\n'), ("tests/golden/bad.txt", "# whatever comes\n")):
            self.breaks(lint.rule_english, name, text, name + ":")
            os.remove(os.path.join(lint.ROOT, name))
        self.write("core/good.cpp", HEAD + 'int told = tell("told", 1);\n')  # names and keys of one word
        self.write("tests/good.py", 'print(f"{told} it is")\n')
        self.write("tests/fuzz/corpus/log/one.txt", "nobody told us\n")  # captured
        self.assertEqual(list(lint.rule_english()), [])

    def good_picture(self):
        self.write("docs/pictures/top.svg", "<svg/>")
        self.write("docs/top.md", "![stoker top with a run](pictures/top.svg)\n")
        self.write(pictures.MADE, pictures.made_text(lint.tracked(""), lint.read))

    def test_pictures(self):
        tag = '<picture><source srcset="pictures/{}"><img alt="{}" src="pictures/top.svg"></picture>\n'
        for name, text, says in (("docs/bad.md", "![a run of today](pictures/gone.png)\n", "docs/pictures/gone.png does not exist"),
                                 ("docs/bad.md", "![](pictures/top.svg)\n", "no text for those who do not see it"),
                                 ("docs/bad.md", tag.format("top.svg", ""), "no text for those who do not see it"),
                                 ("docs/bad.md", tag.format("dark.svg", "top at night"), "docs/pictures/dark.svg does not exist"),
                                 ("docs/pictures/run-light.png", "x", "no page shows it"), ("docs/pictures/old.png", "x", "made by nothing"),
                                 ("docs/pictures/top.svg", "x" * 204801, "204801 bytes (at most 204800)"),
                                 (pictures.MADE, "", "nothing says what top.svg was made of")):
            self.good_picture()
            self.breaks(lint.rule_pictures, name, text, says)
            os.remove(os.path.join(lint.ROOT, name))
        self.good_picture()
        self.write("docs/good.md", "![a badge elsewhere](https://example.org/x.svg)\n" + tag.format("top.svg", "stoker top again"))
        self.assertEqual(list(lint.rule_pictures()), [])

    def test_pictures_are_drawn_by_files_that_exist(self):
        names = subprocess.run(["git", "ls-files"], cwd=self.before[0], text=True, capture_output=True, check=True).stdout.split()
        for pattern in sum(pictures.DRAWN_BY.values(), []):
            self.assertTrue(pictures.fnmatch.filter(names, pattern), pattern)

    def test_picture_older_than_its_sources_is_a_note(self):
        self.good_picture()
        self.assertEqual(list(lint.rule_pictures()), [])
        self.write("cli/top/layout.cpp", HEAD + "int a;\n")
        found = list(lint.rule_pictures())
        self.assertEqual(len(found), 1)
        self.assertTrue(found[0].startswith("note: docs/pictures/top.svg is older than what draws it"), found)
        with contextlib.redirect_stdout(io.StringIO()) as said:
            self.assertEqual(lint.report([lint.rule_pictures], ""), 0)
        self.assertIn("ok lint: pictures\n    note: ", said.getvalue())

    def test_unformatted(self):
        self.breaks(lint.rule_format, "core/bad.cpp", HEAD + "int   x ( ) ;\n", "./dev fmt")

    def test_stale_generated_docs(self):
        build = os.path.join(lint.ROOT, "build")
        self.write("build/bin/stoker", "#!/bin/sh\nexit 0\n", 0o755)
        self.assertEqual(list(lint.rule_generated_docs(build)), [])
        self.write("build/bin/stoker", "#!/bin/sh\necho docs/cli.md is stale\nexit 1\n", 0o755)
        self.assertIn("docs/cli.md is stale", list(lint.rule_generated_docs(build))[0])

    def tidy_breaks(self, text, says):
        build = os.path.join(lint.ROOT, "build")
        self.breaks(lambda: lint.rule_tidy(build), "core/bad.cpp", HEAD + text, says)

    def test_use_after_move(self):
        self.tidy_breaks("#include <string>\n#include <utility>\n\nstd::string f(std::string a) {\n"
                         "  const std::string b = std::move(a);\n  return a + b;\n}\n", "bugprone-use-after-move")

    def test_seven_parameters(self):
        self.tidy_breaks("int f(int a, int b, int c, int d, int e, int g, int h) {\n"
                         "  return a + b + c + d + e + g + h;\n}\n", "readability-function-size")

    def test_finding_in_a_header(self):
        self.write("core/bad.cpp", HEAD)
        self.write("core/good.cpp", HEAD + '#include "core/bad.hpp"\n')
        build = os.path.join(lint.ROOT, "build")
        bad = "inline int f(int a, int b, int c, int d, int e, int g, int h) {\n  return a + b + c + d + e + g + h;\n}\n"
        self.write("core/bad.hpp", HEAD + "#pragma once\n")
        self.assertEqual(lint.rule_tidy(build), [])
        self.write("core/bad.hpp", HEAD + "#pragma once\n" + bad)  # the remembered result must not hide it
        self.assertIn("core/bad.hpp", lint.rule_tidy(build)[0])

    def test_file_that_does_not_compile(self):
        self.tidy_breaks("int f() {\n  return missing;\n}\n", "undeclared identifier")


if __name__ == "__main__":
    unittest.main()
