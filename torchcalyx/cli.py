"""The command line `torchcalyx`.

Exit codes: 0 all is well, 1 two executions that must agree do not, 2 a mistake of the user (arguments, model,
inputs), 3 a tool is missing or failed. With `--json` standard output holds one JSON value, also for an error.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click
from rich.console import Console
from rich.table import Table

from torchcalyx import __version__
from torchcalyx.errors import (
    AccuracyWarning,
    InputError,
    MismatchError,
    SaturationWarning,
    ToolError,
    ToolNotFound,
    TorchCalyxError,
)

_F = TypeVar("_F", bound=Callable[..., Any])


def exit_code(error: TorchCalyxError) -> int:
    """The exit code that stands for an error."""
    if isinstance(error, MismatchError):
        return 1
    return 3 if isinstance(error, (ToolNotFound, ToolError)) else 2


class _Commands(click.Group):
    """A group that turns our errors into a message and an exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        arguments = [*getattr(ctx, "_protected_args", []), *ctx.args]
        try:
            with _warnings_as_text(ctx):
                return super().invoke(ctx)
        except click.UsageError as error:
            if "--json" not in arguments:
                raise
            _echo_json({"error": "UsageError", "message": error.format_message()})
            ctx.exit(2)
        except TorchCalyxError as error:
            if ctx.ensure_object(dict).get("json"):
                _echo_json({"error": type(error).__name__, "message": str(error)})
            else:
                click.echo(f"{type(error).__name__}: {error}", err=True)
            ctx.exit(exit_code(error))


@contextmanager
def _warnings_as_text(ctx: click.Context) -> Iterator[None]:
    """Our warnings become lines of standard error, and are kept for `--json`: no line of the user's code
    called us.
    """
    with warnings.catch_warnings():
        others = warnings.showwarning
        for kind in (AccuracyWarning, SaturationWarning):
            warnings.simplefilter("always", kind)

        def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
            if not issubclass(category, (AccuracyWarning, SaturationWarning)):
                return others(message, category, *place, **more)
            text = {"warning": category.__name__, "message": str(message)}
            ctx.ensure_object(dict).setdefault("warnings", []).append(text)
            click.echo(f"{category.__name__}: {message}", err=True)

        warnings.showwarning = show
        yield


def _warned() -> list[dict[str, str]]:
    """The warnings that this command has shown."""
    found: list[dict[str, str]] = (
        click.get_current_context().find_root().ensure_object(dict).get("warnings", [])
    )
    return found


def _remember_json(ctx: click.Context, _: click.Parameter, value: bool) -> bool:
    ctx.find_root().ensure_object(dict)["json"] = value
    return value


_json_option = click.option(
    *("--json", "as_json"), is_flag=True, callback=_remember_json, help="Print JSON instead of text."
)


def _model_options(command: _F) -> _F:
    """The arguments of every command that compiles a model."""
    for decorate in (
        _json_option,
        click.option("--simulator", type=click.Choice(["verilator", "icarus"]), help="Which simulator runs."),
        click.option("--lanes", type=click.IntRange(min=1), help="Elements in a memory word."),
        click.option("--multipliers", type=click.IntRange(min=1), help="Budget of multipliers."),
        click.option(
            "--tolerance", type=float, help="Greatest error of an output, relative to its largest magnitude."
        ),
        click.option("--precision", help="Number format: fixed8, fixed16, fixed32 or auto."),
        click.argument("target", metavar="FILE.py:FACTORY"),
    ):
        command = decorate(command)
    return command


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="torchcalyx")
def main() -> None:
    """Compile PyTorch modules to hardware through the Calyx compiler.

    FACTORY names a function in FILE.py that returns (module, example_inputs).
    """


@main.command("setup")
@_json_option
def setup_command(as_json: bool) -> None:
    """Install the Calyx compiler, calyx-py and the primitives into this environment."""
    from torchcalyx.tools.install import setup

    steps = setup(lambda line: click.echo(f"==> {line}", err=True))
    if as_json:
        _echo_json([{**dataclasses.asdict(step), "place": str(step.place)} for step in steps])
    else:
        for step in steps:
            click.echo(f"{step.part}: {step.state} in {step.place}")


@main.command("doctor")
@_json_option
def doctor_command(as_json: bool) -> None:
    """List every tool with its version and place; exit code 3 when a needed one is missing."""
    from torchcalyx.tools.cache import cache_dir
    from torchcalyx.tools.doctor import examine

    findings = examine()
    if as_json:
        tools = [{**dataclasses.asdict(f), "usable": f.usable} for f in findings]
        _echo_json({"tools": tools, "cache": str(cache_dir())})
    else:
        table = Table(title=f"torchcalyx {__version__}", title_justify="left")
        for column in ("tool", "version", "place", "what it does"):
            table.add_column(column, overflow="fold")
        for f in findings:
            absent = "missing" if f.required else "missing (optional)"
            table.add_row(f.name, f.version or absent, f.place or f"install it: {f.install}", f.purpose)
        _console().print(table)
        click.echo(f"cached results: {cache_dir()}")
        for f in findings:
            if not f.usable:
                click.echo(f"\n{f.name}: {f.problem}", err=True)
    if not all(f.usable for f in findings if f.required):
        sys.exit(3)


@main.command("kernels")
@_json_option
def kernels_command(as_json: bool) -> None:
    """List the kernel families and their parameters."""
    from torchcalyx.kernels.families import FAMILIES

    families = [_describe_family(family) for family in FAMILIES]
    if as_json:
        _echo_json(families)
        return
    for family in families:
        click.echo(f"{family['name']}: {family['summary']}")
        for parameter in family["parameters"]:
            click.echo(f"    {parameter['name']}: {parameter['type']}")


@main.command("compile")
@_model_options
@click.option("-o", "--output", type=click.Path(file_okay=False, path_type=Path), required=True)
def compile_command(target: str, output: Path, as_json: bool, **options: Any) -> None:
    """Write the design to a folder: program, Verilog, data, test bench, report."""
    hw, _ = _compile(target, options)
    hw.save(output)
    files = sorted(str(p.relative_to(output)) for p in output.rglob("*") if p.is_file())
    if as_json:
        _echo_json({"directory": str(output), "cycles": hw.cycles, "files": files, "warnings": _warned()})
    else:
        click.echo(f"{output}: {len(files)} files, {hw.cycles} cycles a call; see its README.md")


@main.command("run")
@_model_options
def run_command(target: str, as_json: bool, **options: Any) -> None:
    """Simulate the model on FACTORY's inputs and compare with PyTorch; exit code 1 on a mismatch."""
    from torchcalyx.options import Options
    from torchcalyx.results.saturations import alert

    hw, inputs = _compile(target, options)
    comparison = hw.check(*inputs)
    alert([comparison.saturations], Options.of(None, _given(options)), hw.expected_excess)
    simulated = comparison.simulated_cycles
    if as_json:
        _echo_json(
            {
                "cycles": simulated,
                "predicted_cycles": hw.cycles,
                "exact": comparison.exact,
                "comparison": json.loads(comparison.to_json()),
                "warnings": _warned(),
            }
        )
    else:
        click.echo(f"{simulated} cycles simulated, {hw.cycles} predicted")
        click.echo(str(comparison))
    if not comparison.ok:
        sys.exit(1)


@main.command("report")
@_model_options
@click.option("--html", type=click.Path(dir_okay=False, path_type=Path), help="Write it as HTML to a file.")
def report_command(target: str, html: Path | None, as_json: bool, **options: Any) -> None:
    """Print cycles, utilisation, multipliers and memory of every kernel call."""
    hw, _ = _compile(target, options)
    report = hw.report()
    if html is not None:
        try:
            html.write_text(report.to_html(), encoding="utf-8")
        except OSError as error:
            raise InputError(f"{html} cannot be written: {error.strerror or error}") from error
    click.echo(report.to_json() if as_json else str(report))


@main.command("explain")
@_model_options
def explain_command(target: str, as_json: bool, **options: Any) -> None:
    """Print which operation became which kernel, by which rule, and why other rules refused."""
    from torchcalyx.results.tables import source_json

    hw, _ = _compile(target, options)
    if as_json:
        rows = hw.stages.selection.rows
        _echo_json([{**dataclasses.asdict(row), "source": source_json(row.source)} for row in rows])
    else:
        click.echo(hw.explain())


def _compile(target: str, options: dict[str, Any]) -> tuple[Any, tuple[Any, ...]]:
    """Load the factory's model and compile it with the options that were given."""
    from torchcalyx.api import compile
    from torchcalyx.factory import load_model

    module, inputs = load_model(target)
    return compile(module, inputs, **_given(options)), inputs


def _given(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _describe_family(family: type) -> dict[str, Any]:
    summary = (family.__doc__ or "").strip().partition("\n")[0]
    parameters = [{"name": f.name, "type": str(f.type)} for f in dataclasses.fields(family)]
    return {"name": family.__name__, "summary": summary, "parameters": parameters}


def _console() -> Console:
    """A console that never cuts paths when the output is no terminal."""
    return Console() if sys.stdout.isatty() else Console(width=200)


def _echo_json(value: Any) -> None:
    click.echo(json.dumps(value, indent=2))
