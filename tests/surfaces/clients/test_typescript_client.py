"""The generated TypeScript client: `tsc --strict` accepts it and the example of the docs, and Node runs it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from docs.tools.clients.document import read_api
from docs.tools.clients.files import TYPESCRIPT
from docs.tools.page import ROOT, Page
from headrace import Headrace
from tests.support.site import serve
from tests.support.waiting import PATIENCE

OPTIONS = ["--strict", "--target", "es2022", "--lib", "es2023,dom,dom.iterable", "--module", "esnext"]
OPTIONS += ["--moduleResolution", "bundler", "--noUnusedLocals", "--skipLibCheck"]
PROGRAM = """
import { ApiError, HeadraceClient } from "./headrace.js";
const client = new HeadraceClient(process.argv[2], { token: "5f2a91" });
const job = await client.jobs.create({ task: "js.add", args: [1, 2], queue: "js" });
const claimed = (await client.worker.claim({ worker: "js-1", tasks: ["js.add"], queues: { js: 1 } })).jobs[0];
const held = { id: claimed.id, version: claimed.version };
const outcome = { ...held, outcome: "success", result: claimed.args[0] + claimed.args[1] };
await client.worker.settle({ worker: "js-1", outcomes: [outcome] });
await client.worker.leave({ worker: "js-1" });
let refused = null;
try { await client.jobs.create({ task: "js.add", priority: 5000 }); }
catch (error) { if (error instanceof ApiError) refused = [error.status, error.field]; }
const { result } = await client.jobs.get(job.id);
const found = await client.jobs.find({ state: ["completed", "failed"], total: true });
let streamed = null;
for await (const event of client.events.stream({ types: ["job.completed"], since: "0" })) {
  streamed = event.job_id === job.id;
  break;
}
console.log(JSON.stringify({ result, refused, total: found.total, streamed }));
"""


@pytest.fixture(scope="module")
def tsc(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The compiler: that of this machine, or by npm."""
    if found := shutil.which("tsc"):
        return found
    folder = tmp_path_factory.mktemp("tsc")
    command = ["npm", "install", "--no-audit", "--no-fund", "--silent", "--prefix", str(folder), "typescript"]
    if (
        shutil.which("npm")
        and subprocess.run(command, capture_output=True, timeout=PATIENCE, check=False).returncode == 0
    ):
        return str(folder / "node_modules" / ".bin" / "tsc")
    pytest.skip("there is no TypeScript compiler: install tsc or npm")


def test_every_endpoint_is_a_method_and_every_bracket_is_closed() -> None:
    text = TYPESCRIPT.read_text("utf-8")
    for operation in read_api().operations:
        path = re.sub(r"{(\w+)}", "${quoted(…)}", operation.path)
        assert path in re.sub(r"quoted\(\w+\)", "quoted(…)", text)
    without_texts = re.sub(r'"[^"\n]*"|/\*\*.*\*/|//.*', "", text)
    for opened, closed in ("{}", "()", "[]"):
        assert without_texts.count(opened) == without_texts.count(closed)


@pytest.mark.slow
def test_the_client_and_the_example_of_the_docs_are_of_the_right_types(tsc: str, tmp_path: Path) -> None:
    (block,) = [one for one in Page(ROOT / "docs/how-to/clients.md").blocks if one.language == "typescript"]
    shutil.copy(TYPESCRIPT, tmp_path)
    (tmp_path / "example.ts").write_text(block.text, "utf-8")
    (tmp_path / "wrong.ts").write_text(
        'import { HeadraceClient } from "./headrace";\nconst client = new HeadraceClient();\n'
        'await client.jobs.create({ queue: "a" });\nawait client.jobs.find({ limit: "x" });\n',
        "utf-8",
    )
    done = subprocess.run([tsc, *OPTIONS, "--noEmit", "example.ts"], cwd=tmp_path, capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (0, b"")
    done = subprocess.run([tsc, *OPTIONS, "--noEmit", "wrong.ts"], cwd=tmp_path, capture_output=True, check=False)
    assert re.findall(rb"^wrong\.ts\((\d+)", done.stdout, re.MULTILINE) == [b"3", b"4"], done.stdout


@pytest.mark.slow
@pytest.mark.engines("sqlite")
def test_node_runs_it_against_a_real_server(tsc: str, tmp_path: Path, app: Headrace) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("there is no Node to run it with")
    shutil.copy(TYPESCRIPT, tmp_path)
    subprocess.run([tsc, *OPTIONS, "headrace.ts"], cwd=tmp_path, check=True, capture_output=True)
    (tmp_path / "package.json").write_text('{"type": "module"}')
    (tmp_path / "program.js").write_text(PROGRAM, "utf-8")
    with serve(app, tokens=["5f2a91"]) as site:
        command = [node, "program.js", site.url]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.stderr == ""
    assert json.loads(done.stdout) == {"result": 3, "refused": [422, "priority"], "total": 1, "streamed": True}
