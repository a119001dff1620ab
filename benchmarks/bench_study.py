"""Does a study's server lose answers? 50 people answer at once over loopback, as fast as they can; it is killed twice.

    python benchmarks/bench_study.py [--people 50] [--seconds 60] [--kills 1] [--json]

Each person loads a page, answers it, and loads the next. In the middle the server is killed with SIGKILL and started
again; people whose request broke send the same answer again, as the page in a browser does. At the end every answer
that was acknowledged must be in the database exactly once, and the answers of a person must be those that were sent.
The comparison is with the bare cost of storing: the same rows, one transaction each, by one writer without a server.
"""

import argparse
import http.client
import json
import os
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import didact
from didact.study.auth import read_keys
from didact.study.create import new_study
from didact.study.database import open_answers
from didact.study.design import read_design
from didact.study.schedule import steps_of

PATIENCE = 60.0  # seconds for which a person tries to reach the server


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--people", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--kills", type=int, default=1)
    parser.add_argument("--items", type=int, default=2000)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = study_in(Path(place) / "study", asked.people, asked.items)
        found = measured(folder, asked)
        found["bare_ms"] = bare(Path(place) / "bare", asked.people, folder)
    print(json.dumps(found) if asked.json else told(found))
    if found["lost"] or found["twice"] or found["changed"] or found["errors"]:
        sys.exit(1)


def study_in(folder: Path, people: int, items: int) -> Path:
    data = didact.load_data("planted/sentiment")
    maps = [didact.explain(data.oracle(), data["test"], "random")]
    return new_study(maps, data, out=folder, kind="rating", items=items, annotators=people, pause=0)


class Server:
    """`didact study serve` in a process of its own, on a port that stays the same."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.command = [
            sys.executable,
            "-m",
            "didact.cli.main",
            "study",
            "serve",
            str(folder),
            "--port",
            str(self.port),
        ]
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(self.command, stderr=subprocess.DEVNULL)
        began = time.monotonic()
        while True:
            try:
                connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
                connection.request("GET", "/health")
                if connection.getresponse().read() == b"ok":
                    self.seconds = time.monotonic() - began
                    return
            except OSError:
                if time.monotonic() - began > PATIENCE or self.process.poll() is not None:
                    raise
                time.sleep(0.05)

    def kill(self) -> None:
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(20)


class Person(threading.Thread):
    """Answers page after page until told to stop. What was acknowledged is kept: step -> rating."""

    def __init__(self, port: int, code: str, until: float, number: int) -> None:
        super().__init__()
        self.port, self.code, self.until, self.number = port, code, until, number
        self.cookie = ""
        self.acknowledged: dict[int, int] = {}
        self.repeated = self.broken = 0
        self.latencies: list[float] = []
        self.errors: list[str] = []

    def run(self) -> None:
        try:
            self._answer()
        except Exception as error:
            self.errors.append(repr(error))

    def _answer(self) -> None:
        self._ask("GET", f"/i/{self.code}")
        token = self._token(self._ask("GET", "/")[1])
        self._ask("POST", "/consent", {"csrf": token, "agree": "yes"})
        step = 1
        while time.monotonic() < self.until:
            status, page = self._ask("GET", f"/task/{step}")
            if status != 200:
                self.errors.append(f"page {step}: {status}")
                return
            rating = (self.number + step) % 5 + 1
            fields = {"csrf": self._token(page), "seconds": "0.1", "touched": "1", "rating": str(rating)}
            status, body = self._ask("POST", f"/task/{step}", fields, is_timed=True)
            self.repeated += status == 409  # stored before the connection broke
            if status not in (200, 409):
                self.errors.append(f"answer {step}: {status} {body[:200]}")
                return
            self.acknowledged[step] = rating
            step += 1

    def _token(self, page: str) -> str:
        found = re.search(r'name="csrf" value="(\w+)"', page)
        return found.group(1) if found else ""

    def _ask(
        self, method: str, path: str, fields: dict[str, str] | None = None, *, is_timed: bool = False
    ) -> tuple[int, str]:
        """One request; sent again, the same, until there is an answer to it."""
        gave_up = time.monotonic() + PATIENCE
        while True:
            began = time.perf_counter()
            try:
                connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
                headers = {"cookie": self.cookie, "accept": "application/json" if is_timed else "text/html"}
                if fields is not None:
                    headers["content-type"] = "application/x-www-form-urlencoded"
                connection.request(method, path, None if fields is None else urlencode(fields), headers)
                answer = connection.getresponse()
                body = answer.read().decode()
                break
            except (OSError, http.client.HTTPException):
                self.broken += 1
                if time.monotonic() > gave_up:
                    raise
                time.sleep(0.1)
            finally:
                connection.close()
        if is_timed:
            self.latencies.append(time.perf_counter() - began)
        if cookie := answer.getheader("set-cookie"):
            self.cookie = cookie.partition(";")[0]
        if answer.status == 303 and fields is None:
            return self._ask("GET", urlsplit(answer.getheader("location") or "/").path)
        return answer.status, body


def measured(folder: Path, asked: argparse.Namespace) -> dict[str, object]:
    server = Server(folder)
    keys = read_keys(folder)
    until = time.monotonic() + asked.seconds
    people = [Person(server.port, keys.code(number), until, number) for number in range(1, asked.people + 1)]
    for one in people:
        one.start()
    for turn in range(asked.kills):
        time.sleep(max(0.0, until - time.monotonic() - asked.seconds * (asked.kills - turn) / (asked.kills + 1)))
        server.kill()
        server.start()
    for one in people:
        one.join()
    server.stop()
    started = server.seconds
    stored = stored_in(folder)
    lost = sum((one.number, step) not in stored for one in people for step in one.acknowledged)
    changed = sum(
        stored.get((one.number, step), rating) != rating for one in people for step, rating in one.acknowledged.items()
    )
    count = sum(len(one.acknowledged) for one in people)
    latencies = sorted(1000 * each for one in people for each in one.latencies)
    return {
        "people": asked.people, "seconds": asked.seconds, "kills": asked.kills, "acknowledged": count,
        "stored": len(stored), "lost": lost, "changed": changed, "twice": twice_in(folder, stored),
        "unacknowledged": len(stored) - count, "sent_again": sum(one.repeated for one in people),
        "broken": sum(one.broken for one in people), "median_ms": statistics.median(latencies),
        "p95_ms": latencies[int(0.95 * len(latencies))], "slowest_ms": latencies[-1],
        "start_seconds": started, "errors": [error for one in people for error in one.errors],
    }  # fmt: skip


def stored_in(folder: Path) -> dict[tuple[int, int], int]:
    design = read_design(folder)
    answers = open_answers(folder, design).read()
    return {(int(one.person[1:]), one.step): one.rating or 0 for one in answers}


def twice_in(folder: Path, stored: dict[tuple[int, int], int]) -> int:
    return len(open_answers(folder, read_design(folder)).read()) - len(stored)


def bare(folder: Path, people: int, of: Path) -> float:
    """Milliseconds to store an answer, one after another, without a server."""
    study_in(folder, people, 50)
    design = read_design(folder)
    answers = open_answers(folder, design)
    steps = steps_of(design, 1)
    began = time.perf_counter()
    for step in steps:
        answers.add(1, step, {"rating": 3}, seconds=1.0)
    assert of.exists()
    return 1000 * (time.perf_counter() - began) / len(steps)


def told(found: dict[str, object]) -> str:
    return (
        f"{found['people']} people, {found['seconds']:.0f} s, killed {found['kills']} times: {found['acknowledged']:,} "
        f"answers acknowledged, {found['lost']} lost, {found['changed']} changed, {found['twice']} stored twice; "
        f"{found['broken']} requests broke, {found['sent_again']} answers came again and were refused\n"
        f"answer: median {found['median_ms']:.1f} ms, 95 % below {found['p95_ms']:.0f} ms, slowest "
        f"{found['slowest_ms']:.0f} ms; bare storing {found['bare_ms']:.2f} ms\n"
        f"the server answers {found['start_seconds']:.1f} s after it was started\nerrors: {found['errors'] or 'none'}"
    )


if __name__ == "__main__":
    main()
