#!/usr/bin/env python3
"""Tests every mutation that cargo-mutants finds, all of them built into one program.

weave     builds a copy of the program with all mutations, or with those of the files named after the word; an environment
          variable selects one by number
cover     runs each test alone and records which mutations it reaches
try       runs, for each mutation, the tests that reach it, until one fails
report    prints the surviving mutations without a reason in survivors.md
"""
import collections, concurrent.futures, json, os, pathlib, random, re, shutil, subprocess, sys, threading, time

import tree_sitter, tree_sitter_rust

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = pathlib.Path(os.environ.get("MUTANTS_OUT", ROOT / "target" / "mutants")).resolve()
TREE = OUT / "tree"
# Most tests wait for the disk; in memory they take a third of the time.
SCRATCH = pathlib.Path("/dev/shm" if os.path.isdir("/dev/shm") else OUT) / f"nisd-mutants-{os.getpid()}"
JOBS = int(os.environ.get("MUTANTS_JOBS", os.cpu_count()))
# Maximum seconds of tests per mutation; the report names mutations with further tests.
SECONDS = float(os.environ.get("MUTANTS_SECONDS", 60))
# Whether the slow tests run, which `cargo test` ignores.
SLOW = "MUTANTS_SLOW" in os.environ
KILLED = ("killed", "timed out")
LAYERS = ["rules", "state", "chain", "store"]
LIBRARIES = ["nisd", "nisd_core", "nisd_net"]
PROGRAMS = ["all"]
# Tests that run several nodes for minutes.
LEFT_OUT = re.compile("^network::|costs_the_same")

SWITCH = r"""
/// Returns whether mutation `number` is selected (`NISD_MUTANT`); the file `NISD_MUTANT_LOG` records each number.
pub fn mutant(number: u32) -> bool {
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
    static CHOSEN: AtomicU32 = AtomicU32::new(u32::MAX);
    static SEEN: [AtomicBool; COUNT] = [const { AtomicBool::new(false) }; COUNT];
    static LOG: std::sync::OnceLock<Option<std::fs::File>> = std::sync::OnceLock::new();
    let mut chosen = CHOSEN.load(Relaxed);
    if chosen == u32::MAX {
        chosen = std::env::var("NISD_MUTANT").ok().and_then(|n| n.parse().ok()).unwrap_or(u32::MAX - 1);
        CHOSEN.store(chosen, Relaxed);
    }
    if !SEEN[number as usize].swap(true, Relaxed) {
        let log = LOG.get_or_init(|| {
            let path = std::env::var_os("NISD_MUTANT_LOG")?;
            std::fs::OpenOptions::new().append(true).create(true).open(path).ok()
        });
        if let Some(mut log) = log.as_ref() {
            let _ = std::io::Write::write_all(&mut log, format!("{number}\n").as_bytes());
        }
    }
    chosen == number
}
"""


def name_of(mutant):
    """Returns the mutation's name as cargo-mutants prints it, without line and column."""
    function = (mutant["function"] or {}).get("function_name", "")
    place = f" in {function}" if function else ""
    new = mutant["replacement"]
    return {
        "FnValue": f"{mutant['file']}: replace {function} with {new}",
        "BinaryOperator": f"{mutant['file']}: replace {mutant['original']} with {new}{place}",
        "UnaryOperator": f"{mutant['file']}: delete {mutant['original']}{place}",
        "MatchArm": f"{mutant['file']}: delete match arm {mutant['original']}{place}",
        "MatchArmGuard": f"{mutant['file']}: replace match guard with {new}{place}",
        "StructField": f"{mutant['file']}: delete field {mutant['original']}{place}",
    }[mutant["genre"]]


def list_mutants():
    args = ["cargo", "mutants", "--list", "--json", "--exclude", "src/**/tests.rs", "--exclude", "src/**/tests/**"]
    args += ["--exclude-re", "impl (fmt::)?(Display|Debug)"]
    chosen = sys.argv[2:] or [f"src/core/{layer}/{files}" for layer in LAYERS for files in ("**/*.rs", "*.rs")]
    for file in chosen:
        args += ["--file", file]
    return json.loads(subprocess.run(args, cwd=ROOT, check=True, capture_output=True).stdout)


class Source:
    """A source file with its mutations."""

    parser = tree_sitter.Parser(tree_sitter.Language(tree_sitter_rust.language()))

    def __init__(self, path):
        self.path = path
        self.bytes = (ROOT / path).read_bytes()
        self.lines = self.bytes.split(b"\n")
        self.starts = [0]
        for line in self.lines:
            self.starts.append(self.starts[-1] + len(line) + 1)
        self.root = self.parser.parse(self.bytes).root_node
        self.mutants = []

    def offset(self, place):
        line = self.lines[place["line"] - 1].decode()
        return self.starts[place["line"] - 1] + len(line[: place["column"] - 1].encode())

    def text(self, start, end):
        return self.bytes[start:end].decode()

    def add(self, mutant):
        """Adds a mutation and computes its `edit`; None if it cannot be woven."""
        start, end = self.offset(mutant["span"]["start"]), self.offset(mutant["span"]["end"])
        mutant["original"] = self.text(start, end)
        genre, new, number = mutant["genre"], mutant["replacement"], mutant["number"]
        node = self.root.descendant_for_byte_range(start, end)
        mutant["edit"] = None
        self.mutants.append(mutant)
        if genre == "MatchArm":
            while node and node.type != "match_arm":
                node = node.parent
            pattern = node.child_by_field_name("pattern") if node else None
            if not pattern:
                return
            mutant["original"] = self.text(pattern.start_byte, pattern.end_byte)
        if genre == "StructField":
            mutant["original"] = mutant["original"].split(":")[0].strip(" ,")
            while node and node.type != "struct_expression":
                node = node.parent
            if not node:
                return
        if self.is_constant(node):
            return
        if genre == "FnValue":
            mutant["edit"] = ("insert", start, f"if crate::mutant({number}) {{ return {new}; }} ")
        elif genre == "MatchArm":
            guard = pattern.child_by_field_name("condition")
            if guard:
                mutant["edit"] = ("insert", guard.start_byte, f"!crate::mutant({number}) && ")
            else:
                mutant["edit"] = ("insert", pattern.end_byte, f" if !crate::mutant({number})")
        elif genre == "StructField":
            without = self.text(node.start_byte, start) + self.text(end, node.end_byte)
            mutant["edit"] = ("wrap", node.start_byte, node.end_byte, without)
        elif genre == "MatchArmGuard":
            mutant["edit"] = ("wrap", start, end, new)
        else:
            node = node.parent
            if genre == "BinaryOperator" and node.type in ("binary_expression", "compound_assignment_expr"):
                left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
                left, right = (self.text(side.start_byte, side.end_byte) for side in (left, right))
                if node.type == "binary_expression":
                    left = f"({left}\n)"
                mutant["edit"] = ("wrap", node.start_byte, node.end_byte, f"{left} {new} ({right}\n)")
            elif genre == "UnaryOperator" and node.type == "unary_expression":
                mutant["edit"] = ("wrap", node.start_byte, node.end_byte, self.text(end, node.end_byte))

    def is_constant(self, node):
        while node:
            if node.type in ("const_item", "static_item", "const_block"):
                return True
            if node.type == "array_type":
                return True
            if node.type == "function_item":
                return any(c.type == "function_modifiers" and b"const" in c.text.split() for c in node.children)
            node = node.parent
        return False

    def woven(self, dropped):
        """Returns the text with all mutations except the dropped ones, and their positions in it."""
        pieces, wraps = [], collections.defaultdict(list)
        for mutant in self.mutants:
            if not mutant["edit"] or mutant["number"] in dropped:
                continue
            if mutant["edit"][0] == "insert":
                _, start, text = mutant["edit"]
                order = -(1 << 40) if mutant["genre"] == "FnValue" else 1 << 40
                pieces.append((start, 1, order, [(mutant["number"], text)]))
            else:
                _, start, end, text = mutant["edit"]
                wraps[start, end].append((mutant["number"], text))
        for (start, end), choices in wraps.items():
            texts = [
                (number, ("(" if i == 0 else " else ") + f"if crate::mutant({number}) {{ {text}\n }}")
                for i, (number, text) in enumerate(choices)
            ]
            pieces.append((start, 1, -end, texts + [(None, " else { ")]))
            pieces.append((end, 0, -start, [(None, " })")]))
        pieces.sort(key=lambda piece: piece[:3])
        out, places, at = bytearray(), [], 0
        for start, _, _, texts in pieces:
            out += self.bytes[at:start]
            at = start
            for number, text in texts:
                begin = len(out)
                out += text.encode()
                if number is not None:
                    places.append((begin, len(out), number))
        out += self.bytes[at:]
        return bytes(out), places


def weave():
    mutants = list_mutants()
    sources = {}
    for number, mutant in enumerate(mutants):
        mutant["number"] = number
        sources.setdefault(mutant["file"], Source(mutant["file"])).add(mutant)
    files = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\n")
    for file in filter(None, files):
        target = TREE / file
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / file, target)
    for lib in (TREE / "src" / "lib.rs", TREE / "src" / "net" / "lib.rs"):
        lib.write_text(lib.read_text() + "\npub use nisd_core::mutant;\n")
    lib = TREE / "src" / "core" / "lib.rs"
    lib.write_text(lib.read_text() + SWITCH.replace("COUNT", str(len(mutants))))
    dropped, written = {m["number"] for m in mutants if not m["edit"]}, {}
    # Mutations that did not compile in an earlier run with the same list are dropped at once.
    memory = OUT / f"dropped-{len(mutants)}.json"
    if memory.exists():
        dropped |= set(json.loads(memory.read_text()))
    print(f"{len(mutants)} mutations, {len(dropped)} cannot be selected at run time (constants, let chains)")
    environment = {**os.environ, "RUSTFLAGS": "-Awarnings -Aarithmetic_overflow -Aunconditional_panic", "CARGO_TARGET_DIR": str(OUT / "target")}
    while True:
        places = {}
        for path, source in sources.items():
            text, places[path] = source.woven(dropped)
            if written.get(path) != text:
                (TREE / path).write_bytes(text)
                written[path] = text
        check = ["cargo", "check", "--lib", "--locked", "--message-format=json"]
        lines = subprocess.run(check, cwd=TREE, env=environment, capture_output=True, text=True).stdout.splitlines()
        messages = [json.loads(line) for line in lines if line.startswith("{")]
        errors = [m["message"] for m in messages if m["reason"] == "compiler-message" and m["message"]["level"] == "error"]
        if not errors:
            break
        bad = set()
        for error in errors:
            for span in error["spans"]:
                here = places.get(span["file_name"], [])
                inside = {n for a, b, n in here if a < span["byte_end"] and span["byte_start"] < b}
                if not inside and span["is_primary"]:
                    # The mutation that encloses the error: the nearest one before it.
                    near = [(a, n) for a, b, n in here if b <= span["byte_start"]]
                    inside = {n for _, n in sorted(near)[-1:]}
                if span["is_primary"] or len(errors) < 20:
                    bad |= inside
        bad -= dropped
        if not bad:
            named = (re.findall(r"crate::mutant\((\d+)\)", error["rendered"]) for error in errors)
            bad = {int(number) for numbers in named for number in numbers} - dropped
        if not bad:
            # A match without one of its arms: the arms follow the position of the error.
            spans = [span for error in errors for span in error["spans"] if span["is_primary"]]
            for span in spans:
                bad |= set([n for a, _, n in places.get(span["file_name"], []) if a >= span["byte_end"] and n not in dropped][:3])
        print(f"{len(errors)} errors, {len(bad)} mutations do not compile")
        if not bad:
            sys.exit("\n".join(error["rendered"] for error in errors[:5]))
        dropped |= bad
        memory.write_text(json.dumps(sorted(dropped)))
    build = ["cargo", "test", "--locked", "--no-run", "--message-format=json", "--lib", "--bins"]
    for program in PROGRAMS:
        build += ["--test", program]
    done = subprocess.run(build, cwd=TREE, env=environment, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(done.returncode)
    programs = {}
    for line in done.stdout.splitlines():
        message = json.loads(line)
        if message.get("reason") == "compiler-artifact" and message.get("executable") and message["profile"]["test"]:
            programs[message["target"]["name"] + ("-bin" if "bin" in message["target"]["kind"] else "")] = message["executable"]
    for mutant in mutants:
        mutant["name"] = name_of(mutant)
        mutant["woven"] = mutant["number"] not in dropped
        mutant.pop("edit")
    (OUT / "mutants.json").write_text(json.dumps(mutants))
    (OUT / "programs.json").write_text(json.dumps(programs))
    print(f"{sum(m['woven'] for m in mutants)} mutations woven into {len(programs)} programs")


def run(program, tests, seconds, **environment):
    """Runs tests of a program; returns "passed", "failed" or "timed out"."""
    command = [program, "--exact", "--include-ignored", "--test-threads", "1", *tests]
    folder = SCRATCH / str(threading.get_ident())
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with open(folder.with_suffix(".log"), "wb") as log:
        child = subprocess.Popen(
            command, cwd=TREE, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True,
            env={**os.environ, "NISD_CASES": "1", "TMPDIR": str(folder), "RUST_BACKTRACE": "0", **environment},
        )
        try:
            return "passed" if child.wait(seconds) == 0 else "failed"
        except subprocess.TimeoutExpired:
            return "timed out"
        finally:
            try:
                os.killpg(child.pid, 9)
            except ProcessLookupError:
                pass
            child.wait()


def list_tests(program, which):
    listing = subprocess.run([program, "--list", "--format", "terse", which], cwd=TREE, capture_output=True, text=True).stdout
    return re.findall(r"^(.*): test$", listing, re.M)


def cover():
    programs = json.loads((OUT / "programs.json").read_text())
    path = OUT / "cover.jsonl"
    known = {(r["program"], r["test"]) for r in map(json.loads, path.read_text().splitlines())} if path.exists() else set()
    work = []
    for name, program in sorted(programs.items(), key=lambda item: [*LIBRARIES, *PROGRAMS, item[0]].index(item[0])):
        if name not in [*LIBRARIES, *PROGRAMS]:
            continue
        slow = set(list_tests(program, "--ignored"))
        for test in list_tests(program, "--include-ignored"):
            if (name, test) not in known and not LEFT_OUT.search(test) and (SLOW or test not in slow):
                work.append((name, test))
    lock = threading.Lock()

    def one(item):
        name, test = item
        log = SCRATCH / f"cover-{threading.get_ident()}"
        log.parent.mkdir(parents=True, exist_ok=True)
        log.unlink(missing_ok=True)
        begin = time.monotonic()
        passed = run(programs[name], [test], 240, NISD_MUTANT_LOG=str(log)) == "passed"
        seconds = time.monotonic() - begin
        reached = sorted(set(map(int, log.read_text().split()))) if log.exists() else []
        with lock, open(path, "a") as file:
            record = {"program": name, "test": test, "passed": passed, "seconds": round(seconds, 3), "reached": reached}
            file.write(json.dumps(record) + "\n")

    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        list(pool.map(one, work))
    records = [json.loads(line) for line in path.read_text().splitlines()]
    print(f"{len(records)} tests, {sum(r['seconds'] for r in records):.0f} s; failed when run alone:")
    for record in records:
        if not record["passed"]:
            print(" ", record["program"], record["test"])


def try_all():
    programs = json.loads((OUT / "programs.json").read_text())
    mutants = json.loads((OUT / "mutants.json").read_text())
    reaching = collections.defaultdict(list)
    for record in map(json.loads, (OUT / "cover.jsonl").read_text().splitlines()):
        if record["passed"]:
            for number in record["reached"]:
                reaching[number].append(record)
    path = OUT / "results.jsonl"
    known = results()
    had_slow = lambda result: result.get("slow", False)

    def is_open(result):
        if not result:
            return True
        if SLOW and not had_slow(result):
            return result["outcome"] not in KILLED
        return result["outcome"] == "partly" and result["limit"] < SECONDS

    chosen = [m for m in mutants if m["woven"] and is_open(known.get(m["number"]))]
    random.Random(1).shuffle(chosen)
    lock = threading.Lock()

    def one(mutant):
        home = mutant["file"].removeprefix("src/").removeprefix("core/").removesuffix(".rs").removesuffix("/mod").split("/")

        def rank(record):
            words = record["test"].split("::") if record["program"] in LIBRARIES else []
            near = 0
            while near < len(home) and near < len(words) and home[near] == words[near]:
                near += 1
            return record["seconds"] * 0.3**near

        tests = sorted(reaching[mutant["number"]], key=rank)
        outcome, spent, left = "survived", 0.0, len(tests)
        # Tests within the limit of an earlier run have passed.
        earlier = known.get(mutant["number"])
        tried = earlier["limit"] if earlier and had_slow(earlier) == SLOW else 0
        begin = time.monotonic()
        while tests:
            # A few short tests of one program at a time.
            first = tests[0]
            chunk, seconds = [], 0.0
            for record in tests:
                if record["program"] == first["program"] and (not chunk or seconds + record["seconds"] < 1 + spent / 4):
                    chunk.append(record)
                    seconds += record["seconds"]
            if spent + seconds > SECONDS:
                outcome = "partly"
                break
            names = {r["test"] for r in chunk}
            tests = [r for r in tests if r["program"] != first["program"] or r["test"] not in names]
            spent += seconds
            if spent <= tried:
                continue
            ended = run(programs[first["program"]], sorted(names), 5 + 8 * seconds, NISD_MUTANT=str(mutant["number"]))
            if ended != "passed":
                outcome = "killed" if ended == "failed" else ended
                break
        if not left:
            outcome = "unreached"
        with lock, open(path, "a") as file:
            record = {"number": mutant["number"], "name": mutant["name"], "line": mutant["span"]["start"]["line"]}
            record |= {"outcome": outcome, "seconds": round(time.monotonic() - begin, 2), "limit": SECONDS, "slow": SLOW, "unrun": len(tests)}
            file.write(json.dumps(record) + "\n")

    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        list(pool.map(one, chosen))


def results():
    """Returns the last result of each mutation by its number."""
    path = OUT / "results.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return {record["number"]: record for record in map(json.loads, lines)}


def print_sorted(records):
    for record in sorted(records, key=lambda r: (r["name"].split(":")[0], r["line"])):
        file, change = record["name"].split(": ", 1)
        print(f"{record['outcome']:9} {record['number']:5} {file}:{record['line']}: {change}")


def report():
    records = list(results().values())
    print(dict(collections.Counter(r["outcome"] for r in records)))
    reasons = (ROOT / "tests" / "mutants" / "survivors.md").read_text()
    unexplained = [r for r in records if r["outcome"] not in KILLED and f"`{r['name']}`" not in reasons]
    print_sorted(unexplained)
    only_slow = [r for r in records if r["outcome"] in KILLED and r.get("slow")]
    if only_slow:
        print("killed by slow tests alone:")
        print_sorted(only_slow)
    sys.exit(bool(unexplained))


if __name__ == "__main__":
    OUT.mkdir(parents=True, exist_ok=True)
    try:
        {"weave": weave, "cover": cover, "try": try_all, "report": report}[sys.argv[1]]()
    finally:
        shutil.rmtree(SCRATCH, ignore_errors=True)
