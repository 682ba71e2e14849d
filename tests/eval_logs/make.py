"""Make the logs of this folder, by running Inspect and lm-evaluation-harness on eight questions of
our own that no model is asked: a mock gives the answers.

    python -m venv elsewhere; elsewhere/bin/pip install inspect-ai lm-eval
    elsewhere/bin/python tests/eval_logs/make.py FOLDER

Neither package is needed by the project, nor by its tests. From the logs of runs that were cut off
the tracebacks are removed, which hold paths and lines of these packages' code; the script ends with
an error if a path, the host's or the user's name, or an e-mail address is left in a log."""

import argparse
import getpass
import importlib.util
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

QUESTIONS = {f"How many corners do {k} squares have?": str(4 * k) for k in range(2, 10)}
RIGHT = {"a": [1, 1, 1, 1, 1, 1, 1, 0], "b": [1, 0, 0, 0, 0, 0, 0, 1]}
LETTERS = {"a": "CCPPCCIN", "b": "CIPINCIC"}
CUT_OUT = {"traceback", "traceback_ansi"}
ADDRESS = re.compile(r"[\w.+-]+@[\w-]+\.[\w.]+")
TASK = """\
task: corners
dataset_path: json
dataset_kwargs: {data_files: {test: questions.jsonl}}
test_split: test
doc_to_text: "{{question}}"
"""
CHOICES = (
    TASK
    + """\
output_type: multiple_choice
doc_to_choice: "{{choices}}"
doc_to_target: 0
metric_list: [{metric: acc}, {metric: brier_score}]
"""
)
FILTERS = (
    CHOICES.replace("corners", "filters")
    + """\
filter_list:
- {name: first, filter: [{function: take_first}]}
- {name: again, filter: [{function: take_first}]}
"""
)


def inspect_runs(folder, suffix):
    """The runs of Inspect, each into a folder of its name."""
    from inspect_ai import Task, eval
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.model import ModelOutput, ModelUsage, get_model
    from inspect_ai.scorer import Score, match, mean, scorer
    from inspect_ai.solver import generate, solver

    @scorer(metrics={"right": [mean()], "length": [mean()]})
    def graded():
        async def score(state, target):
            answer = state.output.completion
            return Score(value={"right": float(answer == target.text), "length": len(answer) / 10})

        return score

    def letters(of):
        @scorer(metrics=[mean()], name="letters")
        def judged():
            async def score(state, target):  # the third question is left without a score
                return None if state.sample_id == 3 else Score(value=of[state.sample_id - 1])

            return score

        return judged()

    @solver
    def cut(how, at=7):
        async def solve(state, generate):
            if state.sample_id == at:
                os.kill(os.getpid(), how)
                import anyio

                await anyio.sleep(60)
            return await generate(state)

        return solve

    def run(name, who, scorers, questions=8, epochs=1, solve=None):
        given = {
            question: answer if right else "no idea"
            for (question, answer), right in zip(QUESTIONS.items(), RIGHT[who])
        }

        def answer(messages, *_):
            output = ModelOutput.from_content("mockllm/model", given[messages[-1].text])
            output.usage = ModelUsage(input_tokens=9, output_tokens=1, total_tokens=10)
            return output

        samples = [
            Sample(id=i, input=question, target=target)
            for i, (question, target) in enumerate(QUESTIONS.items(), 1)
        ][:questions]
        eval(
            Task(
                MemoryDataset(samples), solver=solve or generate(), scorer=scorers, name="corners"
            ),
            get_model("mockllm/model", custom_outputs=answer),
            log_dir=str(folder / name),
            log_format=suffix,
            epochs=epochs,
            display="none",
            max_samples=1,
            max_connections=1,
        )

    def several(who):
        return [match(), graded(), letters(LETTERS[who])]

    return {
        "several_a.eval": lambda: run("several_a.eval", "a", several("a")),
        "several_b.eval": lambda: run("several_b.eval", "b", several("b")),
        "several_b.json": lambda: run("several_b.json", "b", several("b"), questions=3),
        "epochs_a.eval": lambda: run("epochs_a.eval", "a", match(), 4, 2),
        "epochs_b.eval": lambda: run("epochs_b.eval", "b", match(), 4, 2),
        "cancelled.eval": lambda: run("cancelled.eval", "b", match(), solve=cut(signal.SIGINT)),
        "killed.eval": lambda: run("killed.eval", "b", match(), solve=cut(signal.SIGKILL)),
    }


def harness_runs(folder):
    """Two runs of the harness's dummy model, which draws what it prefers."""
    docs = [
        {"question": question, "choices": [answer, "1", "2"]}
        for question, answer in QUESTIONS.items()
    ]
    (folder / "questions.jsonl").write_text("".join(json.dumps(doc) + "\n" for doc in docs))
    (folder / "corners.yaml").write_text(CHOICES)
    (folder / "filters.yaml").write_text(FILTERS)
    for seed, who in enumerate("ab", 1):
        subprocess.run(
            [
                sys.executable,
                "-m",
                "lm_eval",
                "run",
                "--model",
                "dummy",
                "--tasks",
                "corners,filters",
                "--include_path",
                ".",
                "--log_samples",
                "--output_path",
                who,
                "--seed",
                str(seed),
            ],
            cwd=folder,
            check=True,
        )
        for task in ("corners", "filters"):
            (made,) = (folder / who).glob(f"*/samples_{task}_*.jsonl")
            yield f"samples_{task}_{who}.jsonl", made


def scrubbed(value):
    """A log's value without tracebacks, and with the kind alone of an error."""
    if isinstance(value, dict):
        return {key: "removed" if key in CUT_OUT else scrubbed(one) for key, one in value.items()}
    if isinstance(value, list):
        return [scrubbed(one) for one in value]
    if isinstance(value, str) and re.match(r"\w+Error\(", value):
        return value.partition("(")[0]
    return value


def checked(text, about):
    """The text, if nothing in it tells of the machine."""
    left = [word for word in about if re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text)]
    if left or ADDRESS.search(text) or "site-packages" in text:
        raise SystemExit(f"left: {left or ADDRESS.search(text) or 'site-packages'}")
    return text


def copy(made, target, about):
    """A log without what does not belong here. A zip keeps its files' order and how each is packed;
    of an Inspect log in JSON the indents go."""

    def compact(text):
        return checked(json.dumps(scrubbed(json.loads(text)), separators=(",", ":")), about)

    if made.suffix == ".eval":
        import inspect_ai._util.zipfile  # noqa: F401   (teaches zipfile to pack by Zstandard)

        with zipfile.ZipFile(made) as old, zipfile.ZipFile(target, "w") as new:
            for entry in old.infolist():
                new.writestr(entry.filename, compact(old.read(entry)), entry.compress_type)
    else:
        text = made.read_text()
        target.write_text(compact(text) if made.suffix == ".json" else checked(text, about))
    print(target.name, target.stat().st_size)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--one", nargs=2, help="of Inspect's runs: its name, and where to")
    asked = parser.parse_args()
    if asked.one:
        name, folder = asked.one
        inspect_runs(Path(folder), name.rpartition(".")[2])[name]()
        return
    out = asked.out.resolve()
    about = [socket.gethostname(), str(Path.home()), sys.prefix, sys.base_prefix, str(out)]
    about += [getpass.getuser()] * (getpass.getuser() != "root")  # "root" is a word as well
    with tempfile.TemporaryDirectory() as folder:
        if importlib.util.find_spec("inspect_ai"):
            for name in (
                "several_a.eval",
                "several_b.eval",
                "several_b.json",
                "epochs_a.eval",
                "epochs_b.eval",
                "cancelled.eval",
                "killed.eval",
            ):
                subprocess.run(
                    [sys.executable, __file__, str(out), "--one", name, folder], cwd=folder
                )
                (made,) = (Path(folder) / name).iterdir()
                copy(made, out / name, about)
        if importlib.util.find_spec("lm_eval"):
            for name, made in harness_runs(Path(folder)):
                copy(made, out / name, about)


if __name__ == "__main__":
    main()
