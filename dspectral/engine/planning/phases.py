"""From what a sample took to what the whole will take: one phase for each pass."""

from collections.abc import Sequence
from typing import NamedTuple

from dspectral.engine.planning.pass_costs import PassCosts
from dspectral.engine.planning.recording import PassRecord, RunRecord
from dspectral.engine.planning.scales import Machines, Scale, grown, usual
from dspectral.engine.planning.whole_tree import Tree


class Phase(NamedTuple):
    """The costs of all passes of one name together.

    `name`: name of the passes; `n_times`: number of passes of that name; `reads`: whether they read the data;
    `n_blocks, n_merges`: tasks of one of them; `bytes_read, bytes_sent`: bytes of all of them;
    `summary_bytes`: the largest summary; `memory`: bytes that a process holds at the most, beside its
    libraries and what the client holds; `held`: the part of it that waits in memory while no task runs;
    `seconds`: wall time of all of them.
    """

    name: str
    n_times: int
    reads: bool
    n_blocks: int
    n_merges: int
    bytes_read: int
    bytes_sent: int
    summary_bytes: int
    memory: int
    held: int
    seconds: float


def phases_of(runs: Sequence[RunRecord], scale: Scale, machines: Machines, read: int | None) -> list[Phase]:
    """Return the phases of the whole."""
    phases: dict[str, Phase] = {}
    for number, record in enumerate(runs[-1].passes):
        one = _phase([_same_pass(run, number, record.name) for run in runs], scale, machines, read)
        known = phases.get(record.name)
        phases[record.name] = one if known is None else _together(known, one)
    return list(phases.values())


def _same_pass(run: RunRecord, number: int, name: str) -> PassRecord | None:
    """Return the pass of another run: the one in the same place, if it has the same name."""
    same = number < len(run.passes) and run.passes[number].name == name
    return run.passes[number] if same else None


def _together(a: Phase, b: Phase) -> Phase:
    larger = max(a, b, key=lambda phase: phase.memory)
    return larger._replace(
        n_times=a.n_times + 1,
        reads=a.reads or b.reads,
        bytes_read=a.bytes_read + b.bytes_read,
        bytes_sent=a.bytes_sent + b.bytes_sent,
        seconds=a.seconds + b.seconds,
    )


def _phase(same: Sequence[PassRecord | None], scale: Scale, machines: Machines, read: int | None) -> Phase:
    """Scale one pass up."""
    known = [one for one in same if one is not None]
    record = known[-1]
    same_number = len(known) == len(same) > 1 and len({one.n_blocks for one in known}) == 1
    is_fixed = same_number and not record.joined
    follows = not is_fixed and record.n_blocks > 0
    # Files of a partition, for instance, are as many however long the text is: each task is then larger instead.
    n_blocks = (
        max(1, round(record.n_blocks * scale.n_blocks / scale.samples[-1])) if follows else record.n_blocks
    )
    times = 1.0 / scale.weights[-1]
    blocks = [task for task in record.tasks if task.level == 0]
    if not blocks:
        seconds = record.seconds * (times if record.n_blocks else 1.0)
        return Phase(record.name, 1, record.is_pass, n_blocks, 0, 0, 0, 0, 0, 0, seconds)
    block = usual(blocks) if follows else grown(known, scale)
    tree = Tree.of(record, block.result, n_blocks, machines.fan_in)
    costs = PassCosts(record, block, tree, n_blocks, machines)
    memory, held = costs.memory
    return Phase(
        name=record.name,
        n_times=1,
        reads=record.is_pass,
        n_blocks=n_blocks,
        n_merges=sum(tree.counts),
        bytes_read=int((read or record.read or 0) * record.is_pass),
        bytes_sent=costs.sent,
        summary_bytes=tree.sizes[-1],
        memory=memory,
        held=held,
        seconds=costs.seconds(times),
    )
