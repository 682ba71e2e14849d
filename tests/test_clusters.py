"""Clusters as people have them: TLS between processes, workers that differ, SLURM, Kubernetes."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator

import dask
import psutil
import pytest
import typer
import yaml
from distributed.cli import dask_scheduler, dask_worker
from distributed.security import Security

from conftest import probebook
from probebook.base import PACKAGE, ROOT
from probebook_cli import app
from probebook_runs import workers
from probebook_runs.kernels import kill
from probebook_runs.pages import Page
from probebook_runs.sweep_file import read
from test_sweep import book, command, file, lines, until  # noqa: F401

CLUSTER = ROOT / "notebooks" / "sweeps" / "cluster"


def settings(home) -> dict[str, str]:
    """Dask's settings after `source tls.sh` with this home."""
    script = f"source '{CLUSTER}/tls.sh' 2> '{home}/openssl.log' && env -0"
    said = subprocess.run(
        ["bash", "-c", script],
        env=os.environ | {"HOME": str(home)},
        text=True,
        check=True,
        capture_output=True,
    ).stdout
    return dict(line.split("=", 1) for line in said.split("\0") if line.startswith("DASK_"))


def config(environment: dict[str, str]) -> dict:
    """Dask's settings in environment variables, as `dask.config.set` takes them."""
    return {
        name.removeprefix("DASK_").replace("__", ".").lower(): dask.config.interpret_value(text)
        for name, text in environment.items()
        if name.startswith("DASK_")
    }


@pytest.fixture(scope="module")
def tls(tmp_path_factory) -> Iterator[tuple[str, dict[str, str], list[psutil.Process]]]:
    """A scheduler's address, the settings of its cluster, and the processes of three workers; the
    last one has another library."""
    home = tmp_path_factory.mktemp("home")
    given, other = settings(home), home / "other"
    shutil.copytree(PACKAGE.parent, other / "lib", ignore=shutil.ignore_patterns("__pycache__"))
    (other / "data").symlink_to(ROOT / "data")
    with open(other / "lib" / "probebook" / "base.py", "a") as base:
        base.write("# another version\n")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    address, words = f"tls://127.0.0.1:{port}", [sys.executable, "-m", "dask"]
    worker = [
        *words,
        "worker",
        address,
        "--nthreads",
        "1",
        "--memory-limit",
        "0",
        "--no-nanny",
        "--no-dashboard",
        "--local-directory",
        str(home),
    ]
    commands = [
        (
            [
                *words,
                "scheduler",
                "--protocol",
                "tls",
                "--host",
                "127.0.0.1",
                "--port",
                str(port),
                "--no-dashboard",
            ],
            {},
        ),
        (worker, {}),
        (worker, {}),
        (worker, {"PYTHONPATH": str(other / "lib")}),
    ]
    with open(home / "log", "w") as log:
        processes = [
            psutil.Popen(words, env=os.environ | given | own, cwd=home, stderr=log)
            for words, own in commands
        ]
    until(lambda: (home / "log").read_text().count("Registered to:") == 3)
    yield address, given, processes[1:]
    kill(processes)
    psutil.wait_procs(processes, 10)


@pytest.mark.xdist_group("tls")
def test_a_sweep_over_tls_refuses_a_worker_and_loses_another(book, tls):  # noqa: F811
    """Two workers of three have this library; one of them is killed, and the other makes both
    runs."""
    address, given, processes = tls
    home = book("import probebook.base")
    path = file(home, grid={"n": [1, 2]})
    words = [
        sys.executable,
        "-c",
        "from probebook_cli import app; app()",
        "sweep",
        str(path),
        "--scheduler",
        address,
    ]
    sweep = subprocess.Popen(
        words, env=os.environ | given, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    until(lambda: lines(home / "begun.txt") or sweep.poll() is not None)
    kill(processes[:1])
    out, err = sweep.communicate(timeout=300)
    assert (sweep.returncode, out) == (0, f"{path}: 2 runs: 2 run, 0 reused, 0 failed\n"), err
    refused = [line for line in err.splitlines() if "refused" in line]
    right = workers.inventory(Page("1_demo/01_first"), [])["probebook.base"][:8]
    assert len(refused) == 1
    assert refused[0].startswith("worker tls://127.0.0.1:")
    assert (
        refused[0].partition(" is refused: it has probebook.base ")[2][8:]
        == f" where {right} is right"
    )
    assert {*lines(home / "ended.txt")} == {"1 0", "2 0"}


@pytest.mark.xdist_group("tls")
def test_without_its_certificate_a_scheduler_is_not_reached(book, tls, tmp_path):  # noqa: F811
    address, _, _ = tls
    path = file(book(), grid={"n": [1]})
    for given in ({}, config(settings(tmp_path))):
        with dask.config.set(given):
            status, _, err = command("sweep", path, "--scheduler", address)
        assert status == 2
        assert err.startswith(f"probebook: no Dask scheduler answers at {address} (")
        assert err.endswith(
            "should be tls://HOST:PORT, with its certificate in Dask's settings of TLS\n"
        )
    key = tmp_path / ".config/probebook/tls/key.pem"
    before = key.read_bytes()
    assert key.stat().st_mode & 0o077 == key.parent.stat().st_mode & 0o077 == 0
    settings(tmp_path)  # a key that is there is kept
    assert key.read_bytes() == before


def test_a_worker_says_what_it_lacks(tiny, tmp_path, monkeypatch):
    """A file under PROBEBOOK_DATA, a model's folder, a version, and how many more."""
    home = tiny("from probebook.corpora.fetch import fetch", parameters="model: ModelName = 'm'")
    (home / "m").mkdir()
    (home / "m" / "config.json").write_text("{}")
    table = tmp_path / "data" / "winogender" / "templates.tsv"
    table.parent.mkdir(parents=True)
    table.write_text("a table")
    monkeypatch.setenv("PROBEBOOK_DATA", str(tmp_path / "data"))
    values = [run.values for run in read(file(home)).values()]
    right = workers.inventory(Page("1_demo/01_first"), values)
    assert {
        "Python",
        "torch",
        "data/models",
        "model m",
        "probebook.corpora.fetch",
        str(table),
    } <= right.keys()

    def said(**more):
        return workers._differs(
            workers.Question("1_demo/01_first", values, {}, str(home), right | more)
        )

    assert said() == ""
    assert said(torch="1.0") == f"has torch {right['torch']} where 1.0 is right"
    assert said(a="1", b="2", c="3", d="4") == "has no a (1), no b (2), no c (3), and 1 more"
    table.write_text("another table")
    assert said() == f"has {table} 13 bytes where 7 bytes is right"
    table.unlink()
    assert said() == f"has no {table} (7 bytes)"
    shutil.rmtree(home / "m")
    assert said() == f"has no model m ({right['model m'][:8]}), no {table} (7 bytes)"
    question = workers.Question("1_demo/01_first", values, {}, str(home / "no"), right)
    assert workers._differs(question).startswith(f"does not see {home}: a sweep needs a folder")


# --- SLURM and Kubernetes -------------------------------------------------------------------------


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    """`sbatch` and `scancel` that start and end processes of this machine; the folder of their
    scripts."""
    scripts = tmp_path / "slurm"
    scripts.mkdir()
    for name, line in {
        "sbatch": f'cp "$1" {scripts}/$$.sh; setsid bash {scripts}/$$.sh > {scripts}/$$.log '
        "2>&1 & echo Submitted batch job $!",
        "scancel": 'kill -- "-$1"',
    }.items():
        (scripts / name).write_text(f"#!/bin/bash\n{line}\n")
        (scripts / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{scripts}:{os.environ['PATH']}")
    return scripts


def test_a_dry_run_prints_the_script_of_a_job(book):  # noqa: F811
    path = file(book(), grid={"n": [1, 2]})
    status, out, err = command(
        "sweep", path, "--dry-run", "--slurm", CLUSTER / "slurm.yaml", "--workers", "2"
    )
    assert status == 0, err
    assert out.startswith(f"{path}: 2 runs of 1_demo/01_first, 0 finished")
    header, start = out[out.index("#!/usr/bin/env bash\n") :].split(
        " -m distributed.cli.dask_worker "
    )
    given = yaml.safe_load((CLUSTER / "slurm.yaml").read_text())
    for line in (
        "#SBATCH -p gpu",
        "#SBATCH -t 12:00:00",
        "#SBATCH --cpus-per-task=8",
        f"#SBATCH {given['job_extra_directives'][0]}",
        given["job_script_prologue"][0],
    ):
        assert f"\n{line}" in header, header
    assert start.startswith("tls://")
    for option in (
        "--nthreads 1 ",
        "--protocol tls:// ",
        "--tls-key ",
        "--tls-cert ",
        "--tls-ca-file ",
    ):
        assert option in start, start


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"cores": 1}, "memory"),
        ({"cores": 1, "memory": "1GB", "kew": "gpu"}, "'kew'"),
        (["cores"], "should be a YAML mapping"),
    ],
)
def test_what_slurm_does_not_take_is_said_in_one_line(book, tmp_path, given, says):  # noqa: F811
    (tmp_path / "jobs.yaml").write_text(yaml.safe_dump(given))
    status, _, err = command("sweep", file(book()), "--dry-run", "--slurm", tmp_path / "jobs.yaml")
    assert status == 2
    assert err.startswith(f"probebook: {tmp_path}/jobs.yaml: ")
    assert says in err
    assert err.count("\n") == 1


def test_slurm_needs_its_package(book, monkeypatch):  # noqa: F811
    monkeypatch.setitem(sys.modules, "dask_jobqueue", None)
    path = file(book())
    assert command("sweep", path, "--dry-run", "--slurm", CLUSTER / "slurm.yaml")[::2] == (
        2,
        "probebook: dask-jobqueue is not installed: pip install -e '.[slurm]'\n",
    )
    assert command("sweep", path, "--slurm", "x", "--scheduler", "tls://x:1")[0] == 2


@pytest.mark.verify
def test_a_sweep_on_slurm_replaces_a_job_that_ends(book, slurm, tmp_path):  # noqa: F811
    """With a queue of processes in place of SLURM's."""
    home = book(
        "if n == 2 and not os.path.exists(f'{home}/killed'):\n"
        "    open(f'{home}/killed', 'w').close()\n"
        "    os.kill(os.getppid(), 9)\n    os.kill(os.getppid(), 9)\n    time.sleep(30)"
    )
    (tmp_path / "jobs.yaml").write_text(
        yaml.safe_dump(
            {
                "cores": 1,
                "memory": "2GB",
                "worker_extra_args": ["--no-nanny"],
                "scheduler_options": {"host": "127.0.0.1", "dashboard": False},
            }
        )
    )
    path = file(home, grid={"n": [1, 2, 3]})
    done = probebook("sweep", str(path), "--slurm", str(tmp_path / "jobs.yaml"))
    assert (done.returncode, done.stdout) == (0, f"{path}: 3 runs: 3 run, 0 reused, 0 failed\n"), (
        done.stderr
    )
    assert len(list(slurm.glob("*.sh"))) == 2
    assert not list((home / "_build").glob(".dask-jobqueue*"))


def test_the_manifest_for_kubernetes_is_whole():
    """Names that one part uses are another's; the commands and the settings exist."""
    items = yaml.safe_load((CLUSTER / "kubernetes.yaml").read_text(encoding="utf-8"))["items"]
    named = {(item["kind"], item["metadata"]["name"]): item for item in items}
    environment = named["ConfigMap", "probebook"]["data"]
    assert named["PersistentVolumeClaim", "probebook"]["spec"]["accessModes"] == ["ReadWriteMany"]
    pods = {
        name: item["spec"] for (kind, name), item in named.items() if kind in ("Deployment", "Job")
    }
    commands = {}
    for name, spec in pods.items():
        labels, pod = spec["template"].get("metadata", {}).get("labels"), spec["template"]["spec"]
        assert spec.get("selector", {}).get("matchLabels") == labels
        (container,) = pod["containers"]
        volumes = {volume["name"]: volume for volume in pod["volumes"]}
        mounts = {mount["mountPath"]: volumes[mount["name"]] for mount in container["volumeMounts"]}
        assert mounts["/shared"]["persistentVolumeClaim"] == {"claimName": "probebook"}
        assert mounts["/tls"]["secret"]["secretName"] == "probebook-tls"
        assert container["envFrom"] == [{"configMapRef": {"name": "probebook"}}]
        assert pod["securityContext"]["runAsNonRoot"] and container["resources"]["requests"]
        commands[name] = container["command"]
    service = named["Service", "probebook-scheduler"]["spec"]
    labels = pods["probebook-scheduler"]["template"]["metadata"]["labels"]
    assert service["selector"] == labels
    scheduler, worker, sweep = (
        commands[f"probebook-{what}"] for what in ("scheduler", "worker", "sweep")
    )
    address = f"tls://probebook-scheduler:{service['ports'][0]['port']}"
    for (program, *words), name in ((scheduler, "dask"), (worker, "dask"), (sweep, "probebook")):
        assert program == f"/shared/book/.venv/bin/{name}"
        assert words[0] in ("scheduler", "worker", "sweep")
        assert shutil.which(name, path=os.path.dirname(sys.executable))
    asked = dask_scheduler.main.make_context("scheduler", scheduler[2:]).params
    assert (asked["protocol"], int(asked["port"])) == ("tls", service["ports"][0]["port"])
    asked = dask_worker.main.make_context("worker", worker[2:]).params
    assert (asked["scheduler"], asked["nthreads"], asked["memory_limit"]) == (address, 1, "0")
    asked = typer.main.get_command(app).commands["sweep"].make_context("sweep", sweep[2:]).params
    assert (ROOT / asked["file"]).exists() and asked["scheduler"] == address
    with dask.config.set(config(environment)):
        security = Security()
        for role in ("scheduler", "worker", "client"):
            assert security.get_tls_config_for_role(role) == {
                "ca_file": "/tls/tls.crt",
                "cert": "/tls/tls.crt",
                "key": "/tls/tls.key",
                "ciphers": None,
            }
        assert security.require_encryption is True
        assert dask.config.get("distributed.scheduler.http.routes") == []
