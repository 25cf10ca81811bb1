"""mgc from Python: compile a model, run the program, follow its numbers, read its checkpoints.

    import mgc

    program = mgc.compile("models/llama_mini.mg", D={"layers": 4})
    print(program.plan["step_ms"], program.plan["arena_bytes"])
    run = program.build("train").run(data="book.txt", steps=400)
    for line in run:
        if "loss" in line:
            print(line["step"], line["loss"])
    weights = mgc.load(run.checkpoints()[-1])

Nothing is decided here: all of it is the command mgc and the programs that it makes. docs/python.md is the page about it.
"""

from mgc._compile import Executable, Program, compile
from mgc._errors import CheckpointError, CompileError, Diagnostic, Error, RunError
from mgc._home import command, version
from mgc._run import Run
from mgc._safetensors import Tensors, load

__all__ = ["CheckpointError", "CompileError", "Diagnostic", "Error", "Executable", "Program", "Run", "RunError", "Tensors",
           "command", "compile", "load", "version"]
