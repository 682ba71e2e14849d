"""What pyproject.toml cannot say: the small data of `data/` travel in the wheel, inside the
package."""

from pathlib import Path
from shutil import copytree, ignore_patterns

from setuptools import setup
from setuptools.command.build_py import build_py

MODELS = "pocket-agreement", "pocket-english"  # 11 MB each; the others stay in the checkout


class WithData(build_py):
    """Also copies the data, but for most of the models, the stored runs and the stored book."""

    def run(self):
        super().run()
        if self.editable_mode:
            return
        source, target = Path(__file__).parent / "data", Path(self.build_lib) / "probebook" / "data"
        left_out = ignore_patterns("models", "records", "book.tar.xz")
        copytree(source, target, ignore=left_out, dirs_exist_ok=True)
        for name in MODELS:
            copytree(source / "models" / name, target / "models" / name, dirs_exist_ok=True)


setup(cmdclass={"build_py": WithData})
