"""From the outcomes of samples to a verdict for each operator; tables, JSON and the README's line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

from benchmarks.opdb.kinds import KINDS, kind
from benchmarks.opdb.trial import Outcome
from torchcalyx.results.tables import table_text

Answer: TypeAlias = Literal["right", "partly", "refused", "wrong", "foreign", "not applicable"]
ANSWERS: tuple[Answer, ...] = ("right", "partly", "refused", "wrong", "foreign", "not applicable")


@dataclass(frozen=True)
class Finding:
    """One operator and what became of its samples."""

    name: str
    outcomes: tuple[Outcome, ...]

    @property
    def judged(self) -> tuple[Outcome, ...]:
        """The samples that PyTorch itself can compute, and always alike."""
        return tuple(o for o in self.outcomes if o.verdict != "not applicable")

    @property
    def answer(self) -> Answer:
        """right: every sample; partly: some samples, the others are refused; wrong, foreign: at least one."""
        verdicts = {o.verdict for o in self.judged}
        if "foreign" in verdicts:
            return "foreign"
        if "wrong" in verdicts:
            return "wrong"
        if verdicts == {"right"}:
            return "right"
        if verdicts == {"refused"}:
            return "refused"
        return "partly" if verdicts else "not applicable"

    @property
    def settled(self) -> bool:
        """Whether whatever is refused is refused on principle."""
        return all(o.principle for o in self.judged if o.verdict == "refused")

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why samples are not right, each class once; those of an operator without any sample too."""
        bad = [o for o in self.outcomes if o.verdict != "right"]
        if self.judged:
            bad = [o for o in bad if o.verdict != "not applicable"]
        return tuple(dict.fromkeys(o.reason for o in bad)) or (() if self.judged else ("no sample",))


def summary(findings: Sequence[Finding]) -> str:
    """The line of README.md."""
    answers = Counter(f.answer for f in findings)
    principle = sum(f.settled for f in findings if f.answer == "refused")
    partly = sum(f.settled for f in findings if f.answer == "partly")
    return (
        f"{answers['right']} of {len(findings)} operators of PyTorch's operator database right, "
        f"{answers['partly']} partly ({partly} of them but for what no static hardware can mean), "
        f"{answers['refused']} refused ({principle} on principle), {answers['wrong']} wrong, "
        f"{answers['foreign']} failing, {answers['not applicable']} not applicable."
    )


def failures(findings: Sequence[Finding]) -> list[Finding]:
    """What must not be."""
    return [f for f in findings if f.answer in ("wrong", "foreign")]


def table(findings: Sequence[Finding]) -> str:
    """Operators by kind and verdict."""
    rows = []
    for name in KINDS:
        counts = Counter(f.answer for f in findings if kind(f.name) == name)
        if counts:
            rows.append((name, *(str(counts[a] or "") for a in ANSWERS), str(sum(counts.values()))))
    total = Counter(f.answer for f in findings)
    rows.append(("all", *(str(total[a]) for a in ANSWERS), str(len(findings))))
    titles = [("kind", "left"), *((a, "right") for a in ANSWERS), ("operators", "right")]
    return table_text(titles, rows)


def details(findings: Sequence[Finding]) -> str:
    """What is wrong or fails, with its messages; then the refusals by reason; then what warned."""
    lines: list[str] = []
    for finding in failures(findings):
        lines += [f"{finding.answer}: {finding.name}"]
        lines += [f"    {text}" for text in _first_of_each(finding)]
    if refused := list(_refusals(findings)):
        rows = [(reason, str(len(names)), _few(names)) for reason, names in refused]
        columns = [("refused", "left"), ("operators", "right"), ("such as", "left")]
        lines += ["", table_text(columns, rows)]
    warned: Counter[str] = Counter()
    for finding in findings:
        for outcome in finding.outcomes:
            warned.update(outcome.warned)
    counts = ", ".join(f"{n} {name}" for name, n in sorted(warned.items())) or "none"
    return "\n".join([*lines, "", f"warnings: {counts}"])


def by_kind(findings: Sequence[Finding]) -> str:
    """Every operator that is not right, under its kind, with the reasons."""
    lines = []
    for name in KINDS:
        own = [f for f in findings if kind(f.name) == name and f.answer not in ("right", "not applicable")]
        if own:
            lines += ["", f"## {name} ({len(own)})"]
            lines += [f"{f.answer:8} {f.name}: {'; '.join(f.reasons)}" for f in own]
    return "\n".join(lines)


def as_json(findings: Sequence[Finding]) -> dict[str, Any]:
    """Everything."""
    return {
        "summary": summary(findings),
        "operators": {
            f.name: {
                "answer": f.answer,
                "kind": kind(f.name),
                "settled": f.settled,
                "reasons": list(f.reasons),
                "samples": [asdict(o) for o in f.outcomes],
            }
            for f in findings
        },
    }


def _first_of_each(finding: Finding) -> Iterator[str]:
    seen = set()
    for outcome in finding.judged:
        if outcome.verdict in ("wrong", "foreign") and outcome.reason not in seen:
            seen.add(outcome.reason)
            yield f"{outcome.reason}: {outcome.message.splitlines()[0] if outcome.message else ''}"
            yield f"    ({outcome.inputs})"


def _refusals(findings: Sequence[Finding]) -> Iterator[tuple[str, list[str]]]:
    """(reason, operators with a sample refused for it): principles first, each by falling count."""
    groups: dict[tuple[bool, str], list[str]] = {}
    for finding in findings:
        for key in dict.fromkeys((o.principle, o.reason) for o in finding.judged if o.verdict == "refused"):
            groups.setdefault(key, []).append(finding.name)
    for (stated, reason), names in sorted(groups.items(), key=lambda g: (not g[0][0], -len(g[1]), g[0][1])):
        yield (f"principle: {reason}" if stated else reason), names


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:4]) + (", ..." if len(names) > 4 else "")
