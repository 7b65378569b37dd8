"""`python -m benchmarks.numbers`: the tables of benchmarks/exactness.py.

A benchmark that runs as a script (`python benchmarks/futil_size.py`) has this folder first on its path, where
this file hides the standard library's `numbers`; imported under that name it gives way to it.
"""

from __future__ import annotations

import sys

if __name__ == "numbers":
    import sysconfig
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    spec = PathFinder.find_spec("numbers", [sysconfig.get_path("stdlib")])
    assert spec is not None and spec.loader is not None
    sys.modules["numbers"] = module_from_spec(spec)
    spec.loader.exec_module(sys.modules["numbers"])
elif __name__ == "__main__":
    from benchmarks.exactness import main

    sys.exit(main(*sys.argv[1:]))
