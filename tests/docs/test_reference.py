"""The reference that ./dev docs makes of the headers: complete, free of what is private, and its
code compiles."""
from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from docs.blocks import ROOT

sys.path.append(str(ROOT / "tools" / "dev"))
import reference  # noqa: E402

HEADERS = reference.public_headers()

# What stands around the blocks of a header, for the compiler. A header without an entry needs none.
AROUND = {
    "actor.hpp": "extern scheduler_pool pool;",
    "driver.hpp": "extern driver& d; std::size_t n = 1;",
    "generator.hpp": "net::tcp_stream stream;",
    "graph.hpp": "struct table {}; table read_rows(const std::string&); "
                 "int add_up(const table&); void use(int);",
    "net/datagram.hpp": "std::array<std::byte, 1500> buffer;",
    "net/seqpacket.hpp": "std::array<std::byte, 1500> buffer; extern net::unix_endpoint at;",
    "net/tls.hpp": "std::array<std::byte, 4096> buffer;",
    "offload.hpp": "extern thread_pool pool; std::vector<int> numbers; "
                   "int add_up(std::vector<int>);",
    "on.hpp": "extern scheduler_pool pool; net::tcp_stream socket; "
              "task<int> count(net::tcp_stream);",
    "spawn.hpp": "extern scheduler& home; task<int> compute(); void use(int);",
    "sync/broadcast.hpp": "using price = int;",
    "sync/condition.hpp": "mutex m; condition changed; std::vector<int> queue;",
    "task_group.hpp": "task<void> one(); task<void> two();",
}
# Headers whose blocks are no statements but declarations, and what stands before them.
DECLARATIONS = {
    "run.hpp": "task<void> serve(net::endpoint);",
    "scheduler_pool.hpp": "using net::endpoint; "
                          "task<void> accept_on(endpoint, net::listen_options);",
}

# A function declared in a block: g++ 12 takes none inside of a coroutine.
FUNCTION = re.compile(r"^[\w:<>]+ \w+\([\w:]+& \w+\);", re.MULTILINE)


def test_every_public_header_has_a_page_that_the_index_leads_to(tmp_path: Path) -> None:
    written = reference.write(tmp_path)
    assert len(written) == len(HEADERS) + 1
    links = re.findall(r"\]\(([\w/]+\.md)\)", (tmp_path / "README.md").read_text())
    assert {tmp_path / link for link in links} == set(written[:-1])
    for path in written[:-1]:
        text = path.read_text()
        assert re.match(r"# \w+\n\n`#include <ringloop/[\w/]+\.hpp>`\n\n\S", text), path
        assert text.count("```") % 2 == 0
        assert not re.search(r"\w_;|^\s*(private|protected):|namespace detail", text, re.M), path


@pytest.mark.parametrize(("page", "lines"), [
    ("sync/channel.md", ["## channel_closed", "## channel", "**Cancel:** a receive loses nothing: ",
                         "    [[nodiscard]] std::optional<T> try_receive();"]),
    ("net/tcp_listener.md", ["struct listen_options {", "    int backlog = 1024;"]),
    ("when.md", ["## when_any", "task<T> shield(task<T> work);"]),
    ("operation.md", ["1. From submit() to the last completion the operation, ",
                      "```text\nidle --submit--> submitted"]),
])
def test_a_page_holds_what_its_header_says(tmp_path: Path, page: str, lines: list[str]) -> None:
    reference.write(tmp_path)
    text = (tmp_path / page).read_text()
    for line in lines:
        assert line in text


HEADER = """// thing: does it.
//
//     thing t(1);
//     t.go();      at once
//
// Thread: any. Lifetime: long.
#pragma once
namespace ringloop {
namespace detail {
struct inner {};
}  // namespace detail
// One.
class thing {
  public:
    // Makes { it }.
    explicit thing(int n) : a_{n}, b_(n) { go(); }
    struct part {
        int x = 0;  // a remark
    };
    class go_await {};
    void go() const noexcept {
        if (a_) { return; }
    }

  private:
    int a_;
    int b_;
};
inline constexpr int most = 3;  // of all
enum class kind : char { one, two };
using alias = thing (*)(int);
template <class T>
requires(sizeof(T) > 1) T twice(T x) {
    return x + x;
}
}  // namespace ringloop
"""


def test_bodies_and_what_is_private_are_left_out() -> None:
    found = reference.declarations(HEADER)
    assert [each.name for each in found] == ["thing", "most", "kind", "alias", "twice"]
    assert found[0].comment == ("One.",)
    assert found[0].code == """class thing {
    // Makes { it }.
    explicit thing(int n);
    struct part {
        int x = 0;  // a remark
    };
    void go() const noexcept;
};"""
    assert found[1].code == "inline constexpr int most = 3;  // of all"
    assert found[2].code == "enum class kind : char { one, two };"
    assert found[4].code.endswith("requires(sizeof(T) > 1) T twice(T x);")
    lines = reference.contract(HEADER)
    assert reference.code_blocks(lines) == ["thing t(1);\nt.go();      // at once"]
    assert reference.markdown(lines).endswith("**Thread:** any.\n\n**Lifetime:** long.")


@pytest.mark.time_limit(240)
def test_the_code_in_the_headers_compiles(tmp_path: Path) -> None:
    """All of it in one program; "…" stands for what a reader fills in."""
    program = ["#include <array>", "#include <string>", "#include <vector>",
               "#include <ringloop/ringloop.hpp>"]
    number = 0
    for header in HEADERS:
        name = str(header.relative_to(reference.INCLUDE))
        if name.startswith("interop/"):
            continue    # Asio's, libuv's, oneTBB's: the programs of docs/interop.md are compiled
        for block in reference.code_blocks(reference.contract(header.read_text())):
            number += 1
            text = block.replace("…", "{}")
            before = DECLARATIONS.get(name) or AROUND.get(name, "")
            if name not in DECLARATIONS:
                before += "".join(FUNCTION.findall(text))
                text = f"task<void> block() {{\n{FUNCTION.sub('', text)}\nco_return; }}"
            place = f"{re.sub(r'[/.]', '_', name)}_{number}"
            program.append(f"namespace {place} {{ using namespace ringloop;\n{before}\n{text}\n}}")
    assert number >= 15
    source = tmp_path / "program.cpp"
    source.write_text("\n".join(program) + "\n")
    done = subprocess.run([os.environ.get("CXX", "g++"), "-std=c++20", "-fsyntax-only",
                           "-DRINGLOOP_TLS", "-Werror=return-type", f"-I{ROOT}/runtime/include",
                           str(source)],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:4000]
