"""Hardware of a sorting network: words of keys compared lane by lane, each level one register deep.

A key is a signed number: the value above, its index below, so that equal values keep their order.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..rtl.hw import Component, Program, Signal

Level = Sequence[tuple[int, int, "bool | None"]]


def exchange_component(prog: Program, width: int) -> Component:
    """Two keys in order one cycle later: the smaller in `low`, the other way round where `down` is 1.

    Nothing moves where `on` is 0.
    """
    name = f"exchange_{width}"
    found = prog.find(name)
    if found is not None:
        return found
    c = prog.component(name)
    low, high = c.input("a", width), c.input("b", width)
    down, on = c.input("down", 1), c.input("on", 1)
    swap = c.and_(on, c.xor(c.less(high, low), down))
    c.output("low", c.delay(c.mux(swap, high, low), 1))
    c.output("high", c.delay(c.mux(swap, low, high), 1))
    return c


def apart_component(prog: Program, width: int, distance: int) -> Component:
    """The same for keys that arrive `distance` cycles apart in one stream.

    While the later of two arrives, `on` is 1 and `down` is theirs. Each leaves distance + 1 cycles after its
    place in the stream.
    """
    name = f"exchange_{width}_apart_{distance}"
    found = prog.find(name)
    if found is not None:
        return found
    c = prog.component(name)
    later, down, on = c.input("x", width), c.input("down", 1), c.input("on", 1)
    line = c.cell("pipe", (width, distance))
    c.program.use("pipe")
    earlier = Signal(f"{line}.out", width)
    swap = c.and_(on, c.xor(c.less(later, earlier), down))
    c.connect(f"{line}.in", c.mux(swap, earlier, later))
    c.output("y", c.delay(c.mux(swap, later, earlier), 1))
    return c


def through_levels(
    c: Component, keys: Sequence[Signal], levels: Sequence[Level], down: Signal, on: Signal
) -> list[Signal]:
    """The keys of a word behind a network, len(levels) cycles later. down, on: in the cycle of the keys."""
    row = list(keys)
    unit = exchange_component(c.program, keys[0].width) if levels else None
    for number, level in enumerate(levels):
        whole, enable = c.delay(down, number), c.delay(on, number)
        following = list(row)
        for low, high, fixed in level:
            assert unit is not None
            turned = whole if fixed is None else c.const(int(fixed), 1)
            pair = c.instance(unit).drive(a=row[low], b=row[high], down=turned, on=enable)
            following[low], following[high] = pair.get("low"), pair.get("high")
        row = following
    return row


def through_stage(
    c: Component, keys: Sequence[Signal], distance: int, down: Signal, on: Signal
) -> list[Signal]:
    """Each lane compared with the word `distance` cycles before; distance + 1 cycles later."""
    unit = apart_component(c.program, keys[0].width, distance)
    return [c.instance(unit).drive(x=key, down=down, on=on).get("y") for key in keys]
