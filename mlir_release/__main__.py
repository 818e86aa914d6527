"""``python -m mlir_release``."""

from mlir_release.cli.app import main

if __name__ == "__main__":
    main()
