# Golden tests of the front end: each .mg here says how it is run and what must be printed.
# Parameters: front=PATH of mgc-front, llvm=PATH of LLVM's tools, out=PATH for results.
import os

import lit.formats

config.name = "grammar"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mg"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = lit_config.params["out"]
config.environment["PATH"] = lit_config.params["llvm"] + ":" + os.environ["PATH"]
config.substitutions.append(("%front", lit_config.params["front"]))
config.substitutions.append(("%models", os.path.join(config.test_source_root, "../../models")))
