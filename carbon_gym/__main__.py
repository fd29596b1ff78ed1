"""``python -m carbon_gym`` is the command line `carbon-gym`."""

from carbon_gym.cli import main

if __name__ == "__main__":  # the processes of `benchmark --jobs` import this module again
    main()
