# Golden tests of the compiler: each .mg or .mgir here says in its RUN lines how it is compiled and
# what must be printed; each .csv is a pipeline's table, and each .test has no input of its own. Parameters: mgc=PATH, llvm=PATH of LLVM's tools, out=PATH for results.
import os

import lit.formats

config.name = "golden"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mg", ".mgir", ".csv", ".test"]
config.excludes = ["Inputs"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = lit_config.params["out"]
config.environment["PATH"] = lit_config.params["llvm"] + ":" + os.environ["PATH"]
config.substitutions.append(("%mgc", lit_config.params["mgc"]))
config.substitutions.append(("%models", os.path.join(config.test_source_root, "../../models")))
